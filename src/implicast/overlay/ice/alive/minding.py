"""Whom to greet at a tick: whose turn it is, heirs that have not echoed, heirs of the silent, and those missed."""

from operator import attrgetter

from implicast.overlay.ice.alive.greeting import Greeting
from implicast.peer.contract import Address

_next_us, _heard_us = attrgetter("next_us"), attrgetter("heard_us")


class Minding(Greeting):
    """Finds the silent, and knows for how long nobody can be."""

    __slots__ = ()

    def greet_due(self) -> bool:
        """Greet whom it is time to greet. True if anybody who concerns us is silent or suspect.

        It also finds out for how long that need not be done again.
        """
        now_us = self.host.now_us
        quiet_us = now_us + self.life.hello_us
        troubled = False
        if self._wary or not self._circle or now_us >= self._silent_us:
            unsure, troubled = self._look_around(now_us)
            quiet_us = 0 if unsure else quiet_us
        due = [peer for peer, news in self._circle.items() if news.next_us <= now_us]
        quiet_us = self._greet_heirs_too(due, now_us, quiet_us)
        asked = [each for each in due if ("hail", each) not in self.asks] if due else due
        if asked:
            self.hail(asked)
        next_us = min(map(_next_us, self._circle.values()), default=quiet_us)  # those just greeted come later
        self.quiet_us = min(quiet_us, next_us, self._silent_us) if len(asked) == len(due) else 0
        return troubled

    def due_next_us(self, now_us: int) -> int:
        """When nobody around is suspect, nor anybody's greeting awaited: the first time at which somebody is to be
        greeted or has been silent for too long."""
        circle = self._circle.values()
        if now_us >= self._silent_us:
            self._silent_us = min(map(_heard_us, circle)) + self.life.sus_us
            if now_us >= self._silent_us:
                self._look_around(now_us)
        next_us: int = min(map(_next_us, circle))
        return next_us if next_us < self._silent_us else self._silent_us

    def _look_around(self, now_us: int) -> tuple[bool, bool]:
        """Is anybody's greeting awaited? And is anybody silent or suspect?

        Not looked for again while nobody can be: nine ticks of ten, at two thirds of the price.
        """
        self._circle = self._circle or {peer: self.concern(peer) for peer in self._near}
        oldest_us = now_us
        unsure = doubted = False
        for peer, news in self._circle.items():
            if news.unsure:
                self.ask_more(peer)
                unsure = True
            if news.suspect_us >= 0:
                doubted = True
            heard_us, since_us = news.heard_us, news.since_us
            if heard_us < oldest_us and since_us < oldest_us:
                oldest_us = heard_us if heard_us > since_us else since_us
        self._wary = unsure or doubted
        self._silent_us = oldest_us + self.life.sus_us
        return unsure, doubted or self._silent_us < now_us

    def _greet_heirs_too(self, due: list[Address], now_us: int, quiet_us: int) -> int:
        """Heirs that have not echoed for a period are greeted whoever's turn it is; until when there are none."""
        hello_us, known = self.life.hello_us, self.news
        for peer in self.heirs:
            due_us = (known.get(peer) or self.concern(peer)).echo_us + hello_us
            if due_us < quiet_us:
                quiet_us = due_us
            if now_us >= due_us and peer not in due:
                due.append(peer)
        return quiet_us

    def face_silence(self) -> None:
        """Suspect the silent; in the place of suspects, greet their heirs."""
        due: dict[Address, None] = {}
        for peer in dict.fromkeys((*self._near, *self.heirs)):
            news = self.concern(peer)
            if news.suspect_us < 0 and self.silence_us(peer) > self.life.sus_us:
                self.suspect(peer)
            if news.suspect_us >= 0:
                self._greet_heirs_of(news.heirs, due)
        self.hail(due)

    def _greet_heirs_of(self, heirs: tuple[Address, ...], due: dict[Address, None]) -> None:
        """Whoever takes the place of a suspect must know of us, and we of it."""
        for heir in heirs:
            if heir == self.address or ("hail", heir) in self.asks:
                continue
            if self.host.now_us >= self.concern(heir).next_us:
                due[heir] = None

    def greet_missed(self) -> None:
        """Those that fell silent may be back, or a cut healed: ask at pauses that grow with the silence."""
        now_us = self.host.now_us
        for peer, (since_us, due_us) in list(self.missed.items()):
            if now_us - since_us > self.life.long_us:
                del self.missed[peer]
                continue
            if now_us >= due_us:
                due_us = now_us + max(self.life.meet_us, (now_us - since_us) // 4)
                self.missed[peer] = (since_us, due_us)
                if ("hail", peer) not in self.asks:
                    self.host.send(peer, self.hail_for(peer))
            self.quiet_us = min(self.quiet_us, due_us, since_us + self.life.long_us)
