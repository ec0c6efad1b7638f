"""Digest exchange between neighbours: a cast that all k senders of a place withheld is fetched from
a neighbour.

A place in range that received a cast sends its digest to the three nearest members in range on each
side, about 3 s later; casts of that time share a message. A receiver that lacks a cast requests it
and gets the part that the publisher signed. The signature makes it valid whichever peer sends it.
Such a cast is delivered but not forwarded: the place forwards when a proper step arrives, so an
early digest cannot pre-empt its role. A place misses a cast only if its k senders and its three
neighbours on each side lie or missed it too.

Members have this part only where peers are watched: elsewhere every step is acknowledged at once.
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from implicast.casting.bft.multicast import KeyRange
from implicast.casting.bft.validator import HopValidator, Query, Source
from implicast.casting.inbox import Outcome
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, CastId, Message, Part, StandingAlarm, handles
from implicast.peer.expiry import expiry_of, is_expired
from implicast.peer.fields import Token
from implicast.peer.identity import Key
from implicast.peer.memory import Recent

DIGEST_US = 3_000_000
"""Delay of digests, varied by a quarter. By then almost every step has arrived."""
NEIGHBOURS = 3
"""Members on each side."""
WIDE_SAMPLE = 16
"""Further members in range that get the digest of an own cast, or of one received only by this
exchange.
"""
DIGESTS_MAX = 256
"""Digests in one message."""
REMEMBERED_MAX = 1_024
"""Casts stored for requests, requested, served, or received this way; the oldest is evicted first.
"""

REMEMBERED_US = 300_000_000
"""For 5 min a cast is stored for requests, and its digests, requests and answers are remembered: by
then every receiver refuses it as older than its window.
"""


class CastDigest(Message):
    """A multicast that the sender has: cast, query, key of the source, and key range."""

    cast: CastId
    query: Token
    place: Key
    low: Key
    high: Key


class CastDigests(Message):
    """Digests of multicasts that the sender has."""

    wire = 0x0C0A
    casts: Annotated[tuple[CastDigest, ...], Meta(max_length=DIGESTS_MAX)]


class RequestCast(Message):
    """Requests a multicast that the sender lacks."""

    wire = 0x0C0B
    query: Token
    place: Key


class RequestedCast(Message):
    """A requested multicast as its publisher signed it."""

    wire = 0x0C0C
    source: Source


class DigestDue(StandingAlarm):
    """Fires when digests of received casts are to be sent."""


class DigestExchange(Part):
    """Casts that the places of one member received lately.

    Calls `deliver(source, key_range)` for a cast received by exchange, and `flaw(source)` to
    validate it. `lacks(cast)` tells whether a cast is wanted.
    """

    __slots__ = (
        "_asked",
        "_deliver",
        "_flaw",
        "_fresh",
        "_graph",
        "_holders_of",
        "_lacks",
        "_served",
        "_stored",
        "_validator",
        "_wide",
        "delivered",
    )

    def __init__(
        self,
        graph: SkipGraph,
        validator: HopValidator,
        flaw: Callable[[Source], str | None],
        deliver: Callable[[Source, KeyRange], Outcome | None],
        lacks: Callable[[CastId], bool],
    ) -> None:
        super().__init__(graph.address, graph.host)
        self._graph, self._validator, self._flaw = graph, validator, flaw
        self._deliver, self._lacks = deliver, lacks
        self._fresh: dict[tuple[Query, bytes], Source] = {}  # by multicast and own place
        self._wide: dict[Query, Source] = {}  # casts whose digest goes to many members in range
        self._stored: Recent[Query, Source] = Recent(REMEMBERED_MAX)
        # each with the time of its first entry
        self._asked: Recent[tuple[Address, Query], int] = Recent(REMEMBERED_MAX)
        self._served: Recent[tuple[Address, Query], int] = Recent(REMEMBERED_MAX)
        # members that sent the digest of a cast
        self._holders_of: Recent[tuple[Address, Query], int] = Recent(REMEMBERED_MAX)
        # casts received first by exchange
        self.delivered: Recent[CastId, int] = Recent(REMEMBERED_MAX)

    def note_cast(self, source: Source, place: bytes | None = None) -> None:
        """Plan the digest of a cast that an own place in range received.

        Without a place, the cast is an own one or was withheld from this member. If the first
        senders lie, whole parts of a range miss a cast; its digest then goes to up to `WIDE_SAMPLE`
        members in range.
        """
        if len(self._fresh) + len(self._wide) >= REMEMBERED_MAX:
            return
        if not self._fresh and not self._wide:
            self.host.after(int(DIGEST_US * (0.75 + self.host.rng.random() / 2)), DigestDue())
        self._stored[source.name] = source
        if place is None:
            self._wide[source.name] = source
        else:
            self._fresh[source.name, place] = source

    def _forget_old(self) -> None:
        """Drop what was recorded more than `REMEMBERED_US` ago."""
        since_us = self.host.now_us - REMEMBERED_US
        self._stored.drop_while(lambda source: source.sent_us < since_us)
        self.delivered.drop_while(lambda at_us: at_us < since_us)
        for table in (self._asked, self._served, self._holders_of):
            table.drop_while(lambda at_us: at_us < since_us)

    @handles(DigestDue)
    def on_digest_due(self, alarm: DigestDue) -> None:
        """Send the digests of new casts, except to members that have the cast: half of all."""
        self._forget_old()
        fresh, wide, outgoing = self._fresh, self._wide, dict[Address, dict[Query, CastDigest]]()
        self._fresh, self._wide = {}, {}
        found = [(cast, self._beside(place, cast.key_range)) for (_, place), cast in fresh.items()]
        found += [(source, self._known(source.key_range)) for source in wide.values()]
        for source, addresses in found:
            name = source.name
            digest = CastDigest(source.cast, *name, source.low, source.high)
            for address in addresses:
                if (address, name) not in self._holders_of:
                    outgoing.setdefault(address, {})[name] = digest
        for to, digests in outgoing.items():
            self.host.send(to, CastDigests(tuple(digests.values())[:DIGESTS_MAX]))

    def _beside(self, place: bytes, key_range: KeyRange) -> list[Address]:
        """The nearest other members in range on each side of a place."""
        if place not in self._graph.places.held:
            return []
        level, found = self._graph.places.held[place].table.levels[0], dict[Address, None]()
        right, left = level.nodes[level.own + 1 :], level.nodes[: level.own][::-1]
        for side in (right, left):
            near = dict.fromkeys(
                node.address
                for node in side
                if key_range.holds(node.key) and node.address != self.address
            )
            found.update(dict.fromkeys(list(near)[:NEIGHBOURS]))
        return list(found)

    def _known(self, key_range: KeyRange) -> list[Address]:
        """A random sample of the listed members in range."""
        held = self._graph.places.held.values()
        listed = (node for place in held for level in place.table.levels for node in level.nodes)
        found = list(dict.fromkeys(node.address for node in listed if key_range.holds(node.key)))
        others = [address for address in found if address != self.address]
        return self.host.rng.sample(others, min(WIDE_SAMPLE, len(others)))

    @handles(CastDigests)
    def on_cast_digests(self, sender: Address, digests: CastDigests) -> None:
        """Request the casts that are lacking and for an own place."""
        for each in digests.casts:
            query, key_range = (each.query, each.place), KeyRange(each.low, each.high)
            self._holders_of.once((sender, query), self.host.now_us)
            if query in self._stored or not self._lacks(each.cast):
                continue
            is_ours = any(map(key_range.holds, self._graph.places.held))
            if is_ours and self._asked.once((sender, query), self.host.now_us):
                self.host.send(sender, RequestCast(each.query, each.place))

    @handles(RequestCast)
    def on_request_cast(self, sender: Address, asked: RequestCast) -> None:
        """Send a stored cast, once to each member."""
        query, now_us = (asked.query, asked.place), self.host.now_us
        source = self._stored.get(query)
        if source is None or is_expired(expiry_of(source.payload), now_us):
            return
        if self._served.once((sender, query), now_us):
            self.host.send(sender, RequestedCast(source))

    @handles(RequestedCast)
    def on_requested_cast(self, sender: Address, requested: RequestedCast) -> None:
        """Deliver a requested cast that passes the checks of its source part."""
        source = requested.source
        is_asked = self._asked.pop((sender, source.name), None) is not None
        flaw = self._flaw(source) if is_asked else "unasked_echo"
        if flaw is not None:
            self._validator.refuse(flaw)
            return
        if source.name not in self._stored and any(
            map(source.key_range.holds, self._graph.places.held)
        ):
            if self._deliver(source, source.key_range) is Outcome.TAKEN:
                self.delivered.once(source.cast, self.host.now_us)
            self.note_cast(source)
