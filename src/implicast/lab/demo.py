"""The demonstration: all designs carry the same casts, on embedded Spark, and a report shows who
bears what.

python -m implicast.lab.demo [DIRECTORY]
"""

import shutil
import sys
import time
from pathlib import Path

from implicast.lab import report
from implicast.lab.experiment import experiment
from implicast.lab.options import started
from implicast.lab.run import run
from implicast.language.errors import ImplicastError

NEXT = """
Try next:
  implicast designs                                   what the designs are, with every parameter
  implicast simulate spice-unloaded --peers 1024 --casts 256
  implicast lab list                                  the experiments of the papers
  implicast lab run peers                             one of them; add --scale paper for the full size
  implicast lab workload zipf --peers 100000 --casts 1000 --groups --out big
"""


def main(words: list[str]) -> int:
    """Run the demonstration into a directory, from the beginning; the exit code."""
    out = Path(words[0]) if words else Path("demo")
    made = experiment("demo")
    begun = time.monotonic()
    print(f"{made.title}: {', '.join(made.chosen())}", flush=True)
    print(
        "Each runs in a deterministic world, one run per Spark task; this takes about a minute.",
        flush=True,
    )
    try:
        if (out / "lab.json").is_file() or (out / "experiment.json").is_file():
            shutil.rmtree(out)
        with started(None, (), brief=True) as spark:
            went = run(spark, made, out, said=lambda text: print(text, flush=True))
        path = report.write(out)
    except ImplicastError as error:
        print(f"implicast: {error}", file=sys.stderr)
        return 2
    print(f"\nDone in {time.monotonic() - begun:.0f} s. The report: {path}\n{NEXT}")
    return 1 if went.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
