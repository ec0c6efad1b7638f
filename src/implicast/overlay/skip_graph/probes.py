"""Probes of listed places: a sign of life from places that other peers named, and from places that
a neighbour does not list.

A node named by another peer is listed at once, because its certificate is valid. Unless a search
asks it, it is probed: the probe carries this peer's signed claim, and a node that does not answer
is lost. A probe does not ask for lists; anti-entropy brings further nodes, and only where two lists
differ. A node heard lately is not probed: it learns of this place when it compares its own lists.
Probes from all own places to all places of one address share a message.
"""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from implicast.overlay.skip_graph.departures import GraphDepartures
from implicast.overlay.skip_graph.members import HEARD_WITHIN_US, GraphMembers
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import PRESENT, Claim, Places
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.peer.identity import Certificate, Key
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests, RetryPolicy

EXPECT_REPLY = "expect reply"
RETRY_US = 1_000_000
"""A receiver of a probe or comparison that has not answered within 1 s is probed by the failure
detector.
"""
PROBE_DELAY_US = 200_000
"""Probes planned within 0.2 s share one message for each address."""
PROBED_MAX = 256
"""Claims, and keys probed, in one probe."""
PLANNED_MAX = 4_096
"""Probes planned at a time. Nodes beyond the bound come up again in a later comparison."""
DISPUTED_MAX = 512
"""Disputed nodes remembered; the oldest is evicted first."""


class ProbePlaces(Message):
    """Asks for a sign of life and for leave messages of the `asked` places. The receiver inserts
    the claimants into the lists of these places where they fit.
    """

    wire = 0x0B09
    claims: Annotated[tuple[Claim, ...], Meta(max_length=PROBED_MAX)]
    asked: Annotated[tuple[Key, ...], Meta(max_length=PROBED_MAX)]


class ProbeAck(Message):
    """Answer to `ProbePlaces`: the sender is alive. Leave messages of places it has left are sent
    apart.
    """

    wire = 0x0B0A


class PlacesProbeDue(StandingAlarm):
    """Fires when the planned probes of places are to be sent."""


class PlaceProbes(Part):
    """Planned probes of one peer's places, and answers to those of others."""

    __slots__ = (
        "_departures",
        "_disputed",
        "_look_us",
        "_members",
        "_places",
        "_planned",
        "_requests",
    )

    def __init__(
        self,
        requests: AbstractRequests,
        places: Places,
        members: GraphMembers,
        departures: GraphDepartures,
        look_us: int,
    ) -> None:
        super().__init__(places.address, places.host)
        self._requests, self._places, self._members = requests, places, members
        self._departures, self._look_us = departures, look_us
        # nodes that a neighbour does not list: time of the first dispute, and whether probed since
        self._disputed: Recent[bytes, tuple[int, bool]] = Recent(DISPUTED_MAX)
        # own place and node to probe -> whether the probe introduces the own place
        self._planned: dict[tuple[bytes, bytes], bool] = {}
        requests.topic(
            EXPECT_REPLY,
            RetryPolicy(RETRY_US, 1),
            lambda shown, asked: members.probe_with(asked.to, asked.message),
        )

    def send_expecting_reply(self, address: Address, message: Message) -> None:
        """Send a message once; if it is not answered, the failure detector probes the receiver with
        it.
        """
        self._requests.ask(EXPECT_REPLY, (address, type(message).wire), address, message)

    def replied(self, address: Address, kind: type[Message]) -> None:
        """A message of this kind was answered."""
        self._requests.answered(EXPECT_REPLY, (address, kind.wire))

    def plan_probe(self, place: Place, node: Certificate, is_new: bool = False) -> None:
        """Probe a node within `PROBE_DELAY_US`; to a new one the probe introduces the own place."""
        if node.address == self.address or len(self._planned) >= PLANNED_MAX:
            return
        if not self._planned:
            self.host.after(PROBE_DELAY_US, PlacesProbeDue())
        both = (place.key, node.key)
        self._planned[both] = is_new or self._planned.get(both, False)

    def probe_disputed(self, place: Place, disputed: Iterable[Certificate]) -> None:
        """Probe listed nodes that a neighbour does not list."""
        for node in disputed:
            if self._is_probe_due(node):
                self.plan_probe(place, node)

    def _is_probe_due(self, node: Certificate) -> bool:
        """Whether to probe a disputed node, at most once in `HEARD_WITHIN_US`: a neighbour that
        never agrees must not cause endless probes.

        Usually the neighbour's list is too short, and our answer completes it. A node heard lately
        is therefore probed only if the dispute lasts for more than half a round. This saves seven
        probes in ten.
        """
        now_us, disputed = self.host.now_us, self._disputed
        disputed.drop_while(lambda each: each[0] <= now_us - HEARD_WITHIN_US)
        first_us, asked = disputed.get(node.key, (now_us, False))
        was_heard = self._members.was_heard_since(node.address, now_us - HEARD_WITHIN_US + 1)
        asks = not asked and (now_us - first_us > self._look_us // 2 or not was_heard)
        disputed[node.key] = (first_us, asked or asks)
        return asks

    @handles(PlacesProbeDue)
    def on_places_probe_due(self, alarm: PlacesProbeDue) -> None:
        """Send the planned probes for nodes that are still listed."""
        planned, self._planned = self._planned, {}
        introduced: dict[Address, dict[bytes, None]] = {}
        theirs: dict[Address, dict[bytes, None]] = {}
        held = self._places.held
        for (key, other), is_new in planned.items():
            node = held[key].listed(other) if key in held else None
            if node is not None:
                theirs.setdefault(node.address, {})[other] = None
                if is_new:
                    introduced.setdefault(node.address, {})[key] = None
        for address, asked in theirs.items():
            claims = [self._places.claim(held[key]) for key in introduced.get(address, ())]
            probe = ProbePlaces(tuple(claims[:PROBED_MAX]), tuple(asked)[:PROBED_MAX])
            self.send_expecting_reply(address, probe)

    @handles(ProbePlaces)
    def on_probe_places(self, sender: Address, probe: ProbePlaces) -> None:
        """Insert the claimants, and answer."""
        held, departures = self._places.held, self._departures
        if not held:
            if not departures.has_left(sender):
                departures.answer_about_left(sender, probe.asked)
            return
        probed_places = [held[key] for key in probe.asked if key in held]
        for claim in probe.claims:
            if self._places.certificate_store.verifies(PRESENT, claim):
                for place in probed_places:
                    place.record_asker(claim.certificate)
        departures.answer_about_left(sender, probe.asked)
        self.host.send(sender, ProbeAck())
        departures.tell_latecomer(sender)

    @handles(ProbeAck)
    def on_probe_ack(self, sender: Address, probed: ProbeAck) -> None:
        """The receiver of a probe is alive."""
        self.replied(sender, ProbePlaces)
