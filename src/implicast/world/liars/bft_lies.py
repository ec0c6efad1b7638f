"""What liars do who know the careful design: its levels, its certificates, its confirmations. Elsewhere, nothing."""

from functools import partial

import msgspec

from implicast.casting.bft.member import Bft
from implicast.casting.bft.messages import CastHop, HopHeld, Source
from implicast.overlay.skip_graph.messages import (
    PRESENT,
    AnnouncePlace,
    Disown,
    Farewell,
    Leaving,
    Neighbours,
    claim,
)
from implicast.peer.contract import Address, Message
from implicast.peer.identity import Certificate
from implicast.world.liars.gang import Gang, LyingHost

AHEAD_US = 4_900_000
"""As far in the future as clocks may differ."""
SPOKEN_TO = 8
"""Members that a liar speaks to with each of its old certificates."""


def liars_of(gang: Gang) -> list[Bft]:
    """The peers of the gang, as far as they are of this design."""
    found = (gang.peer(address) for address in sorted(gang.liars))
    return [peer for peer in found if isinstance(peer, Bft)]


def certificates_of(gang: Gang) -> list[Certificate]:
    """Of all liars, in the order of keys."""
    found = [each for liar in liars_of(gang) for each in liar.graph.certificates()]
    return sorted(found, key=lambda each: each.key)


def confirm_to_itself(gang: Gang, liar: LyingHost, to: Address, message: Message) -> None:
    """A step that was kept back is confirmed to the liar's own peer: it reports success to its parent."""
    if isinstance(message, CastHop):
        source = message.source
        held = HopHeld(source.cast, source.query, message.level, message.forwarder.key, taken=1)
        gang.at(2 * 1_000, partial(_receive, gang, liar.address, to, held))


def _receive(gang: Gang, address: int, sender: Address, message: Message) -> None:
    peer = gang.world.peers.get(address)
    if peer is not None:
        peer.receive(sender, message)


def gives_up(message: Message) -> bool:
    """Whether a message says that a place was left."""
    return isinstance(message, Farewell | Leaving | Disown)


def only_accomplices(gang: Gang, message: Message) -> Message:
    """An answer that names neighbours, with fellow liars in their place."""
    if not isinstance(message, Neighbours):
        return message
    return msgspec.structs.replace(message, nodes=tuple(certificates_of(gang))[:256])


class Hoard:
    """All certificates that liars ever held; they speak with each of them."""

    __slots__ = ("_gang", "_held")

    def __init__(self, gang: Gang) -> None:
        self._gang = gang
        self._held: dict[int, dict[int, Certificate]] = {}

    def speak(self) -> None:
        """Claim places that were given up before, to the victim and to some others."""
        gang = self._gang
        for liar in liars_of(gang):
            assert isinstance(liar.address, int), "addresses of the world are numbers"
            kept = self._held.setdefault(liar.address, {})
            now = liar.graph.certificates()
            for old in [
                each for serial, each in kept.items() if serial not in {one.serial for one in now}
            ]:
                said = AnnouncePlace(claim(liar.multicasts.signer, PRESENT, old, liar.host.now_us))
                for _ in range(SPOKEN_TO):
                    self._say(liar, gang.somebody(liar.address), said)
                self._say(liar, gang.victim, said)
            kept.update((each.serial, each) for each in now)

    def _say(self, liar: Bft, to: int, said: Message) -> None:
        if self._gang.afford() and isinstance(liar.host, LyingHost):
            liar.host.truly_send(to, said)


def flood_ahead(gang: Gang) -> None:
    """Casts of the liars' own, dated ahead, straight to the victim: half of what they can afford."""
    liars, count = liars_of(gang), gang.settings.extras // 2
    for number in range(count if gang.stage.targets else 0):
        delay_us = gang.stage.over_us * number // max(1, count)
        for liar in liars:
            gang.at(delay_us, partial(_flood, gang, liar, number))


def _flood(gang: Gang, liar: Bft, number: int) -> None:
    held = list(liar.graph.places.held.values())
    if not held or not gang.afford() or not isinstance(liar.host, LyingHost):
        return
    place, target = held[number % len(held)], gang.stage.targets[number % len(gang.stage.targets)]
    victim = gang.peer(gang.victim)
    own = victim.graph.certificates() if isinstance(victim, Bft) else []
    if not own:
        return
    near = own[number % len(own)].key
    bare = Source(
        liar.upcoming_cast(),
        gang.rng.getrandbits(63),
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
    liar.host.truly_send(gang.victim, liar.multicasts.signed_hop(source, 0, place.certificate))


def preempt(gang: Gang, message: Message, told: set[tuple[int, bytes]]) -> None:
    """Every honest place gets a genuine cast from the liar whose level is lowest, if that is below its own.

    Only what the checks before the fifth would let pass is sent: level = cpl(liar, place) below the start level.
    """
    if not isinstance(message, CastHop) or message.source.name in told:
        return
    told.add(message.source.name)
    liars = liars_of(gang)
    offers = [(own, liar) for liar in liars for own in liar.graph.certificates()]
    for address in gang.honest() if liars else ():
        victim = gang.peer(address)
        if isinstance(victim, Bft):
            for place in victim.graph.certificates():
                _preempt_place(offers, message.source, place)


def _preempt_place(
    offers: list[tuple[Certificate, Bft]], source: Source, place: Certificate
) -> None:
    common = offers[0][1].multicasts.gate.vectors.common
    proper = min(common(source.certificate.vector, place.vector), source.start)
    if not proper:
        return
    for own, liar in offers:
        level = common(own.vector, place.vector)
        if not level and isinstance(liar.host, LyingHost):
            liar.host.truly_send(place.address, liar.multicasts.signed_hop(source, level, own))
            return
