"""The roots of all errors of the project; the tree is drawn in `peer/errors.py`."""


class ImplicastError(Exception):
    """Anything this project raises on purpose."""


class LocalError(ImplicastError):
    """The caller asked for nonsense; nothing was done. The text says what, where, and what would be
    right.
    """


class LanguageError(LocalError):
    """An expression, tag or attribute that cannot be understood.

    `column` counts from 1; None where no single place is to blame.
    """

    def __init__(self, text: str, column: int | None = None) -> None:
        super().__init__(text)
        self.column = column


class OldNameWarning(FutureWarning):
    """An input uses a name that a later version will refuse. The command line prints it."""
