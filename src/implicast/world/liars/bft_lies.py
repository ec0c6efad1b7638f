"""Attacks that know the messages of the `bft` design: its levels, certificates and
acknowledgements. No effect on other designs.
"""

from functools import partial

import msgspec

from implicast.casting.bft.coverage import CastHopAck
from implicast.casting.bft.member import Bft
from implicast.casting.bft.validator import CastHop, Source
from implicast.overlay.skip_graph.departures import DenyPlaces, LeaveGraph, LeavePlace
from implicast.overlay.skip_graph.places import PRESENT, claim
from implicast.overlay.skip_graph.search import AnnouncePlace, Neighbours
from implicast.peer.contract import Address, Message
from implicast.peer.identity import Certificate
from implicast.world.liars.coalition import Coalition, LyingHost

AHEAD_US = 4_900_000
"""Largest difference of clocks that honest members accept."""
SPOKEN_TO = 8
"""Random members to which a liar announces each of its old certificates."""


def liars_of(coalition: Coalition) -> list[Bft]:
    """Peers of the coalition that run this design."""
    found = (coalition.peer(address) for address in sorted(coalition.liars))
    return [peer for peer in found if isinstance(peer, Bft)]


def certificates_of(coalition: Coalition) -> list[Certificate]:
    """Certificates of all liars, in the order of keys."""
    found = [each for liar in liars_of(coalition) for each in liar.graph.certificates()]
    return sorted(found, key=lambda each: each.key)


def confirm_to_itself(coalition: Coalition, liar: LyingHost, to: Address, message: Message) -> None:
    """Acknowledge a withheld step to the liar's own peer, which then reports success."""
    if isinstance(message, CastHop):
        source = message.source
        held = CastHopAck(source.cast, source.query, message.level, message.forwarder.key, taken=1)
        coalition.at(2 * 1_000, partial(_receive, coalition, liar.address, to, held))


def _receive(coalition: Coalition, address: int, sender: Address, message: Message) -> None:
    peer = coalition.world.peers.get(address)
    if peer is not None:
        peer.receive(sender, message)


def is_departure(message: Message) -> bool:
    """Whether a message announces that a place was given up."""
    return isinstance(message, LeavePlace | LeaveGraph | DenyPlaces)


def only_accomplices(coalition: Coalition, message: Message) -> Message:
    """Replace the neighbours named in an answer by fellow liars."""
    if not isinstance(message, Neighbours):
        return message
    return msgspec.structs.replace(message, nodes=tuple(certificates_of(coalition))[:256])


class CertificateHoard:
    """All certificates that liars ever held, to be used after they were given up."""

    __slots__ = ("_coalition", "_held")

    def __init__(self, coalition: Coalition) -> None:
        self._coalition = coalition
        self._held: dict[int, dict[int, Certificate]] = {}

    def announce_old(self) -> None:
        """Announce places given up before to the victim and to random members."""
        coalition = self._coalition
        for liar in liars_of(coalition):
            assert isinstance(liar.address, int), "addresses of the world are numbers"
            held_by_liar = self._held.setdefault(liar.address, {})
            now = liar.graph.certificates()
            for old in [
                each
                for serial, each in held_by_liar.items()
                if serial not in {one.serial for one in now}
            ]:
                announcement = AnnouncePlace(
                    claim(liar.multicasts.signer, PRESENT, old, liar.host.now_us)
                )
                for _ in range(SPOKEN_TO):
                    self._send_if_affordable(
                        liar, coalition.random_member(liar.address), announcement
                    )
                self._send_if_affordable(liar, coalition.victim, announcement)
            held_by_liar.update((each.serial, each) for each in now)

    def _send_if_affordable(self, liar: Bft, to: int, announcement: Message) -> None:
        if self._coalition.afford() and isinstance(liar.host, LyingHost):
            liar.host.send_unchanged(to, announcement)


def flood_ahead(coalition: Coalition) -> None:
    """Send casts dated in the future straight to the victim: half of the messages that the
    coalition can afford.
    """
    liars, count = liars_of(coalition), coalition.settings.extras // 2
    for number in range(count if coalition.context.targets else 0):
        delay_us = coalition.context.over_us * number // max(1, count)
        for liar in liars:
            coalition.at(delay_us, partial(_flood, coalition, liar, number))


def _flood(coalition: Coalition, liar: Bft, number: int) -> None:
    held = list(liar.graph.places.held.values())
    if not held or not coalition.afford() or not isinstance(liar.host, LyingHost):
        return
    place, target = (
        held[number % len(held)],
        coalition.context.targets[number % len(coalition.context.targets)],
    )
    victim = coalition.peer(coalition.victim)
    own = victim.graph.certificates() if isinstance(victim, Bft) else []
    if not own:
        return
    near = own[number % len(own)].key
    bare = Source(
        liar.upcoming_cast(),
        coalition.rng.getrandbits(63),
        near,
        near + b"\0",
        0,
        liar.host.now_us + AHEAD_US,
        target,
        tuple(0 for _ in target.terms),
        b"flood",
        place.certificate,
        b"",
    )
    source = msgspec.structs.replace(bare, signature=liar.multicasts.signer.sign(bare.body()))
    liar.host.send_unchanged(
        coalition.victim, liar.multicasts.signed_hop(source, 0, place.certificate)
    )


def preempt(coalition: Coalition, message: Message, seen: set[tuple[int, bytes]]) -> None:
    """Send a genuine cast to every honest place before its proper sender, at a lower level.

    Only messages that pass the first four checks of the receiver are sent: the level is the common
    prefix length of liar and place, and below the start level.
    """
    if not isinstance(message, CastHop) or message.source.name in seen:
        return
    seen.add(message.source.name)
    liars = liars_of(coalition)
    offers = [(own, liar) for liar in liars for own in liar.graph.certificates()]
    for address in coalition.honest() if liars else ():
        victim = coalition.peer(address)
        if isinstance(victim, Bft):
            for place in victim.graph.certificates():
                _preempt_place(offers, message.source, place)


def _preempt_place(
    offers: list[tuple[Certificate, Bft]], source: Source, place: Certificate
) -> None:
    common = offers[0][1].multicasts.validator.vectors.common
    proper = min(common(source.certificate.vector, place.vector), source.start)
    if not proper:
        return
    for own, liar in offers:
        level = common(own.vector, place.vector)
        if not level and isinstance(liar.host, LyingHost):
            liar.host.send_unchanged(place.address, liar.multicasts.signed_hop(source, level, own))
            return
