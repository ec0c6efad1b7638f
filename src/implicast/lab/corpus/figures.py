"""What a corpus workload looks like beside the thesis's own (section 9.3.2, Figure 9.3), as a
trial.

    corpus_trial(workload="lab-published/workloads/corpus-4096-15000-1")

Counted without Spark, for the tables are small; `describe.Fit` says what an exponent is.
"""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from implicast.lab.describe import fit

HEAD = 10
"""The head of a rank-frequency curve: its first ten ranks."""


def corpus_trial(workload: str) -> dict[str, float]:
    """Distinct casts and their tags, exponents of casts and registrations, and how flat the
    registrations' head is.
    """
    casts = Counter(
        pq.read_table(Path(workload) / "casts", columns=["target"])["target"].to_pylist()
    )
    described = pq.read_table(Path(workload) / "registrations", columns=["tags"])[
        "tags"
    ].to_pylist()
    held = sorted(Counter(tag for tags in described for tag in tags).values(), reverse=True)
    asked, words = (
        sorted(casts.values(), reverse=True),
        Counter(len(target.split("&")) for target in casts),
    )
    registered = fit(held)
    return {
        "distinct_share": len(casts) / casts.total(),
        "distinct_casts": len(casts),
        "casts_exponent": fit(asked).likelihood,
        "casts_slope": fit(asked).slope,
        "one_tag": words[1] / len(casts),
        "two_tags": words[2] / len(casts),
        "three_tags": words[3] / len(casts),
        "distinct_tags": len(held),
        "tags_exponent": registered.likelihood,
        "tags_slope": registered.slope,
        "head": held[0] / held[min(HEAD, len(held)) - 1] / HEAD**registered.slope,
    }
