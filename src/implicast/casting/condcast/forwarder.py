"""Forwards casts to every arc of their range: each once, or until their coverage is known.

Without receipts a cast is forwarded once, to where aggregates allow a match. A cast with a token is
covered (`arc_coverage.py`): its requester asks for a report.
"""

from collections.abc import Callable

from implicast.casting.condcast.arc_coverage import ArcCoverage, Notify
from implicast.casting.condcast.messages import ForwardCast, Query
from implicast.casting.condcast.routing import ArcRouter
from implicast.casting.condcast.settings import CondcastSettings
from implicast.language.aggregate import TargetQuery
from implicast.overlay.chord_sharp import ChordSharp
from implicast.overlay.links import Ref
from implicast.peer.contract import Address, CastId, Incarnation, Part, handles
from implicast.peer.signing import Signing
from implicast.space.ring import Arc


class CastForwarder(Part, parts={"coverage": ArcCoverage}):
    """One peer's part in all casts under way."""

    __slots__ = (
        "_incarnation",
        "_notify",
        "_position",
        "_ring",
        "_router",
        "_settings",
        "_signing",
        "cast",
        "coverage",
    )
    cast: Callable[[CastId, Arc, Query, bytes], None]
    """Starts a cast of this peer."""

    def __init__(
        self,
        ring: ChordSharp,
        settings: CondcastSettings,
        signing: Signing,
        notify: Notify,
        incarnation: Incarnation,
    ) -> None:
        """`notify` delivers a cast to this member if it is selected."""
        super().__init__(ring.address, ring.host)
        self._ring, self._position, self._router = ring, ring.links.position, ArcRouter(ring)
        self._settings, self._signing, self._notify = settings, signing, notify
        self._incarnation = incarnation
        self.coverage: ArcCoverage | None = None
        """Made at the first cast that is covered. A peer without receipts gives them to others."""
        self.cast = self._make_coverage().start if settings.assured else self._start_uncounted

    def _make_coverage(self) -> ArcCoverage:
        made = ArcCoverage(self._ring, self._router, self._notify, self._incarnation)
        self.coverage = made
        return made

    def _start_uncounted(self, cast: CastId, arc: Arc, query: Query, payload: bytes) -> None:
        self._pass_on(ForwardCast(cast, 0, (arc,), query, payload))

    @handles(ForwardCast)
    def on_forward_cast(self, sender: Address, message: ForwardCast) -> None:
        if not self._is_valid(message):
            return
        is_meant = message.incarnation == self._position.me.incarnation
        if message.token:
            (self.coverage or self._make_coverage()).accept(sender, message, is_meant)
        elif is_meant:
            self._pass_on(message)

    # --- callbacks of the overlay

    def on_node_suspected(self, ref: Ref) -> None:
        """A node is suspected: route its uncovered arcs around it."""
        if self.coverage is not None:
            self.coverage.on_node_suspected(ref)

    def on_neighbours_changed(self) -> None:
        """A neighbour has changed: try the stuck arcs again."""
        if self.coverage is not None:
            self.coverage.on_neighbours_changed()

    def return_tasks(self) -> None:
        """This peer leaves: tell all requesters to route around it."""
        if self.coverage is not None:
            self.coverage.return_tasks()

    # --- forwarding

    def _is_valid(self, message: ForwardCast) -> bool:
        """Whether the publisher's signature verifies, the cast has not expired, the arcs have
        integer keys, and the query has this network's filter size.
        """
        query, settings = message.query, self._settings
        if isinstance(query, TargetQuery) and (
            query.bits != settings.bits or query.hashes != settings.hashes
        ):
            return False
        for arc in message.arcs:  # a loop: twice as fast as `any`
            if type(arc.start) is not int or type(arc.end) is not int:
                return False
        payload = self._signing.verified_payload(
            message.cast, query, message.payload, self.host.now_us
        )
        return payload is not None

    def _pass_on(self, message: ForwardCast) -> None:
        """Forward once, without any answer."""
        cast, query, payload = message.cast, message.query, message.payload
        split = self._router.split(message.arcs, query)
        if split.own:
            self._notify(cast, query, payload)
        for node, pieces in split.onward:
            forward = ForwardCast(cast, 0, pieces, query, payload, node.incarnation)
            self.host.send(node.address, forward)
