"""Memory and time of one large run in a process of its own: 65,536 peers under CENTRALISED."""

import json
import subprocess
import sys

PEERS, CASTS = 65_536, 256


def main() -> None:
    command = [
        sys.executable,
        "-m",
        "implicast.cli",
        "simulate",
        "centralised",
        "--peers",
        str(PEERS),
    ]
    command += ["--casts", str(CASTS), "--json"]
    outcome = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(
        f"centralised, {PEERS} peers x {CASTS} casts: {outcome['peak_mb']:.0f} MB, {outcome['seconds']:.1f} s"
    )
    assert outcome["peak_mb"] < 2048, "memory for 65,536 peers must stay below 2 GiB"


if __name__ == "__main__":
    main()
