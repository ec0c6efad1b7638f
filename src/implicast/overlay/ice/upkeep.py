"""What a peer sees to at each tick: whom to greet, who is silent, what does not settle by itself.

Greeted are those whose turn it is, heirs that have not echoed, the heirs of the silent, and those missed. Where nothing
is assured there are no greetings: a peer ticks only while it has something unsettled, and rests then.
"""

from collections.abc import Iterable

from implicast.overlay.ice.messages import Tick
from implicast.overlay.ice.settings import CALM_TICKS
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles

FORGET_TICKS = 8
"""What is to be forgotten is looked for every so many ticks."""
LATE = 3
"""A tick that comes so many periods after the last one says that we slept."""


class Ticks(SurfacePart):
    """Finds the silent, and what does not settle by itself."""

    __slots__ = ("_forget_us", "_ticked_us", "_ticking")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._ticking, self._ticked_us = False, 0
        self._forget_us = FORGET_TICKS * self.timers.tick_us
        """After this time one looks for what is to be forgotten."""

    def start(self) -> None:
        """Begin to tick."""
        if not (self._ticking or self.surface.parting.left):
            self._ticking, self._ticked_us = True, self.host.now_us
            self.host.after(int(self.timers.tick_us * self.host.rng.random()), Tick())

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        surface, now_us, tick_us = self.surface, self.host.now_us, self.timers.tick_us
        if now_us - self._ticked_us > LATE * tick_us + self.timers.rto_us // 2:
            surface.circle.wake_late()
        self._ticked_us = now_us
        troubled = surface.terms.assured and self._mind()
        self._attend()
        calm = not (troubled or self._is_unsettled())
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * tick_us
            self._forget()
        self._ticking = not (surface.parting.left or (calm and not surface.terms.assured))
        if self._ticking:
            self.host.after(tick_us * CALM_TICKS if calm else tick_us, tick)

    def _mind(self) -> bool:
        """Greet, choose heirs, look after the silent. Is anybody who concerns us silent, suspect or awaited?"""
        troubled = self._greet_due()
        if troubled:
            self._face_silence()
        self.surface.succession.choose_heirs()
        self.surface.inquest.watch(troubled)
        if self.surface.circle.missed:
            self.greet_missed()
        return troubled

    def _is_unsettled(self) -> bool:
        """Is there anything that should not wait?"""
        surface, plot = self.surface, self.surface.plot
        moving = surface.giver.gift or surface.taker.receipt or surface.routes.parked or plot.status
        lacking = surface.terms.assured and len(surface.heirs) < self.timers.heirs
        return bool(moving or lacking or surface.leaving or plot.gap is not None or len(plot.pieces) != 1)

    def _attend(self) -> None:
        """What only some peers have to see to."""
        surface = self.surface
        surface.seizures.mend_gap()
        if surface.leaving:
            surface.parting.step()
        elif len(surface.plot.pieces) > 1:
            surface.parting.tidy()
        surface.giver.rescue()
        if surface.routes.parked:
            surface.routes.unpark()

    def _forget(self) -> None:
        surface = self.surface
        surface.taker.expire()
        surface.greetings.forget_gifts()
        surface.routes.forget_hops()
        surface.estates.forget()
        surface.circle.forget_strangers()

    # --- greeting

    def _greet_due(self) -> bool:
        """Greet whom it is time to greet. True if any neighbour is silent, suspect, or its greeting awaited."""
        surface, timers, now_us = self.surface, self.timers, self.host.now_us
        due, troubled, silent_us = dict[Address, None](), False, now_us - timers.self_us
        known, concern = surface.circle.news, surface.circle.concern
        for peer in surface.plot.neighbours():
            news = known.get(peer) or concern(peer)
            if news.unsure:
                surface.greetings.ask_more(peer)
            if news.unsure or news.suspect_us >= 0 or (news.heard_us < silent_us and news.since_us < silent_us):
                troubled = True
            if news.next_us <= now_us:
                due[peer] = None
        due.update((each, None) for each in surface.heirs if concern(each).echo_us + timers.hello_us <= now_us)
        self._hail(due)
        return troubled

    def _hail(self, peers: Iterable[Address]) -> None:
        """Greet those whose answer is not awaited anyway."""
        is_open = self.surface.greeter.open
        self.surface.greetings.hail([each for each in peers if not is_open("hail", each)])

    def _face_silence(self) -> None:
        """Suspect the silent; in the place of suspects, greet their heirs: they and we must know of each other."""
        surface, circle, heirs = self.surface, self.surface.circle, dict[Address, None]()
        for peer in dict.fromkeys((*surface.plot.neighbours(), *surface.heirs)):
            if not circle.is_suspect(peer) and circle.silence_us(peer) > self.timers.self_us:
                circle.suspect(peer)
            if circle.is_suspect(peer):
                heirs.update(dict.fromkeys(circle.heirs_of(peer)))
        heirs.pop(self.address, None)
        self._hail(each for each in heirs if circle.concern(each).next_us <= self.host.now_us)

    def greet_missed(self) -> None:
        """Those that fell silent may be back, or a cut healed: ask at pauses that grow with the silence."""
        surface, timers, now_us = self.surface, self.timers, self.host.now_us
        missed = surface.circle.missed
        for peer, (since_us, due_us) in list(missed.items()):
            if now_us - since_us > timers.long_us:
                del missed[peer]
            elif now_us >= due_us:
                missed[peer] = (since_us, now_us + max(timers.meet_us, (now_us - since_us) // 4))
                if not surface.greeter.open("hail", peer):
                    self.host.send(peer, surface.greetings.hail_for(peer))
