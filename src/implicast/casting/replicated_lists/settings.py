"""Settings of ring and replicated lists, computed from a member's parameters."""

from dataclasses import dataclass, replace

from implicast.overlay.links import LinkSettings
from implicast.peer.lease import UNENDING_US
from implicast.peer.site import Site

CHECK_US = 7_000_000
"""Period of checking the predecessor, unless `check_ms` is set."""
REFRESH_US = 60_000_000
"""Period of looking up one finger again, unless `refresh_ms` is set."""
MERGE_US = 30_000_000
"""Period at which a member looks up its own key through another node, to detect a second ring. All
members do so, hence the end of a partition is detected within a fraction of this period.
"""
FORGET_US = 40_000_000
"""How long a suspicion lasts: longer than a repair that is refused several times, so that a crashed
node is not asked again meanwhile.
"""

ENTRIES_PER_MESSAGE = 500
"""Entries in one message of a range handoff or of anti-entropy."""
RETRY_CHECK_US = 500_000
"""Period of checking for puts and fetches to retry."""
HOP_US = 60_000
"""Extra wait of a put or a fetch for each further value of a range, or for each node of the ring if
there are fewer.
"""
LINGER_US = 5_000_000
"""How long entries of a former description stay in lists after those of the present one are
confirmed. A cast that needs longer than this to read several lists may miss a member that moved
from one to another.
"""


@dataclass(frozen=True, slots=True)
class ReplicatedListSettings:
    """Settings in microseconds. All zero without receipts, as in the papers: one holder, no
    retries, no periodic upkeep.
    """

    copies: int
    """Successors that store copies of a holder's entries. A list is lost only if the holder and all
    of these crash together.
    """
    sync_us: int
    """Period of anti-entropy; 0: only after a change of neighbours."""
    lease_us: int
    """An entry that its owner has not renewed for this long expires; owners renew twice per lease.
    0: entries never expire, and nothing is retried.
    """
    values_max: int = 1
    """Largest number of values in one range request."""


def refresh_us(site: Site) -> int:
    """Return the period of looking up one random finger again; 0: never."""
    return int(site.parameters["refresh_ms"]) * 1000 or (REFRESH_US if site.watched else 0)


def ring_settings(site: Site) -> LinkSettings:
    parameters = site.parameters
    check_us = int(parameters["check_ms"]) * 1000
    if not site.assured:
        return LinkSettings(check_us=check_us)
    living = LinkSettings.with_crashes(
        check_us or CHECK_US, int(parameters["tries"]), MERGE_US, site.resting
    )
    return replace(living, forget_us=FORGET_US, health_max=1)


def list_settings(site: Site) -> ReplicatedListSettings:
    parameters = site.parameters
    sync_us, lease_us = (int(float(parameters[name]) * 1e6) for name in ("sync_s", "lease_s"))
    waits_us = (sync_us, lease_us) if site.watched else (0, UNENDING_US)
    given = (int(parameters["copies"]), *waits_us) if site.assured else (0, 0, 0)
    return ReplicatedListSettings(*given, values_max=int(parameters.get("values_max", 1)))
