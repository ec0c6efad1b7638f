"""What the laboratory refuses, each with one sentence for people.

LocalError
└── LabError            the laboratory was asked for something it cannot do; no work was started
    ├── NoSpark             no Java, no pyspark, or no session at the address given
    ├── ExperimentError     an unknown experiment, or a file that does not describe one
    ├── TableError          a table that is missing or has not the declared columns
    ├── CorpusError         a corpus from which nothing can be drawn
    └── FolderHeld          another process works in the folder
ImplicastError
├── LakeConflict        another process committed to the lake first
├── NothingUsable       input was there, but none of it could be used
└── SparkFailed         Spark gave up; the trace is in a log file
"""

from implicast.peer.errors import ImplicastError, LocalError


class LabError(LocalError):
    """The laboratory was asked for something it cannot do; no work was started."""


class NoSpark(LabError):
    """No Java, no pyspark, or no session at the address given."""


class ExperimentError(LabError):
    """An unknown experiment, axis or setting, or a directory that belongs to another experiment."""


class TableError(LabError):
    """A table that is missing, or has not the declared columns."""


class CorpusError(LabError):
    """A corpus from which nothing can be drawn."""


class FolderHeld(LabError):
    """Another process works in the folder."""


class LakeConflict(ImplicastError):
    """Another process committed to the lake first; what was not committed is to be read again."""


class NothingUsable(ImplicastError):
    """Input was there, but none of it could be used: a failure, not a wrong call."""


class SparkFailed(ImplicastError):
    """Spark gave up; the trace is in a log file."""
