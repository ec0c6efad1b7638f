"""Compare designs on one workload: who carries the load, how fairly, how fast.

.venv/bin/python examples/compare.py --peers 512 --casts 128
"""

import argparse

from implicast import Scenario, simulate
from implicast.casting.designs import designs

MEASURES = ("TOUT_M", "TOUT_G", "POUT_M", "TIN_G", "RTH", "RAH", "latency_ms_mean")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=int, default=256)
    parser.add_argument("--casts", type=int, default=64)
    parser.add_argument("--network", default="flat")
    options = parser.parse_args()
    print(f"{'design':16} {'contract':>9} " + " ".join(f"{name:>15}" for name in MEASURES))
    for name, design in designs().items():
        if "tags" in design.languages:
            outcome = simulate(
                Scenario(name, options.peers, options.casts, network=options.network)
            )
            kept = "kept" if outcome.contract.clean else "BROKEN"
            print(
                f"{name:16} {kept:>9} "
                + " ".join(f"{outcome.measures[each]:15,.3f}" for each in MEASURES)
            )


if __name__ == "__main__":
    main()
