"""Who was away, and when: from the tables of change of one journal, as intervals by peer.

A peer that was away within the flight of a cast need not be notified: from its crash on or, where
it came back, until it was registered again. A peer that came back with an old copy of its disk has
forgotten what it heard since the copy was made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from implicast.world.change import ANNOUNCED
from implicast.world.invariants import FLIGHT_US, NEVER_US

Span = dict[str, int]
"""`from_us` and `to_us`."""
SPANS = pa.list_(pa.struct([("from_us", pa.int64()), ("to_us", pa.int64())]))


@dataclass(frozen=True, slots=True)
class Absences:
    """Intervals by peer, of the few peers that have any."""

    away: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    forgot: Mapping[int, Sequence[Span]] = field(default_factory=dict)

    def with_spans(self, registrations: pa.Table) -> pa.Table:
        """Registrations with the columns `away` and `forgot`."""
        for name, spans in (("away", self.away), ("forgot", self.forgot)):
            registrations = registrations.append_column(name, _column(registrations["peer"], spans))
        return registrations

    def with_excuses(self, casts: pa.Table) -> pa.Table:
        """Casts with `excused`: the publisher was gone before it knew how the cast ended; and with
        `end_us`, the end of the flight.
        """
        begun_us = pc.coalesce(casts["carried_us"], casts["time_us"])
        end_us = pc.add(begun_us, FLIGHT_US)
        excused: Any = pa.repeat(False, len(casts))
        if self.away and len(casts):
            excused = self._excused(casts, begun_us, pc.coalesce(casts["settled_us"], end_us))
        return casts.append_column("excused", excused).append_column("end_us", end_us)

    def _excused(self, casts: pa.Table, begun_us: Any, finished_us: Any) -> pa.Array:
        columns = (casts["publisher"], begun_us, finished_us)
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return pa.array(
            [
                any(begun <= each["from_us"] < finished for each in self.away.get(publisher, ()))
                for publisher, begun, finished in rows
            ],
            pa.bool_(),
        )


def _column(peers: pa.ChunkedArray, spans: Mapping[int, Sequence[Span]]) -> pa.Array:
    if not spans:
        return pa.array([[]] * len(peers), SPANS)
    return pa.array([spans.get(peer, ()) for peer in peers.to_pylist()], SPANS)


def absences(incarnations: pa.Table, events: pa.Table, undisturbed: bool) -> Absences:
    """Crashes from their moment on; leavers from when they began to withdraw; both until the next
    incarnation of the peer was registered.

    Leavers are not away where peers only come and go by their own wish and the network is
    `undisturbed`: they have all the time they need to see to their casts.
    """
    peaceful = undisturbed and set(events["kind"].to_pylist()) <= set(ANNOUNCED)
    away: dict[int, list[Span]] = {}
    forgot: dict[int, list[Span]] = {}
    rows = incarnations.sort_by([("peer", "ascending"), ("from_us", "ascending")]).to_pylist()
    for row, later in zip(rows, [*rows[1:], None], strict=True):
        gone_us = _gone_us(row, peaceful)
        if gone_us is not None:
            again = later is not None and later["peer"] == row["peer"]
            back_us = later["back_us"] if again and later is not None else None
            until_us = NEVER_US if back_us is None else back_us
            away.setdefault(row["peer"], []).append({"from_us": gone_us, "to_us": until_us})
        if row["copied_us"] is not None:
            span = {"from_us": row["copied_us"], "to_us": row["from_us"]}
            forgot.setdefault(row["peer"], []).append(span)
    return Absences(away, forgot)


def _gone_us(row: Mapping[str, Any], peaceful: bool) -> int | None:
    crashed_us: int | None = row["to_us"] if row["end"] == "crashed" else None
    leaving_us: int | None = row["leaving_us"]
    return crashed_us if peaceful or leaving_us is None else leaving_us
