"""All benchmarks, one after the other. Ratios within one run are what counts: machines are shared
and noisy.
"""

import importlib
import sys
from pathlib import Path

ORDER = (
    "values",
    "agenda",
    "journal",
    "relay",
    "lookups",
    "index",
    "network",
    "split",
    "memory",
    "change",
)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    for name in sys.argv[1:] or ORDER:
        importlib.import_module(name).main()
        print()


if __name__ == "__main__":
    main()
