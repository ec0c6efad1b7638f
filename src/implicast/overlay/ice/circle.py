"""Who is there: what is known of each peer that concerns us, who is suspect, and whom we miss.

A suspect is not dead: it is only not used as a next hop while another neighbour will do, until any word comes from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.messages import Hail
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.asking import Question
from implicast.peer.contract import Address
from implicast.peer.memory import Recent

REUNION_US = 10_000_000
"""Those who come back within this time of each other were cut off together."""
NEVER_US = 1 << 62
UNKNOWN_US = 50_000.0
"""Latency assumed of a neighbour that has not been measured yet."""


@dataclass(slots=True)
class News:
    """What is known of one peer."""

    since_us: int
    """Since when it concerns us: silence is not counted from before."""
    born_us: int = -1
    """By its own clock, when its life began; -1: not known."""
    heard_us: int = -1
    """Its last word; -1: none yet."""
    mark: int = -1
    marked_us: int = -1
    """When a word with this mark last came from it."""
    heirs: tuple[Address, ...] = ()
    leaving: bool = False
    suspect_us: int = -1
    """Since when it is suspect; -1: it is not."""
    next_us: int = 0
    """When it is to be greeted again."""
    echo_us: int = -1
    """The newest stamp of ours that it has echoed as an heir."""
    ended_us: int = -1
    """By its own clock: when it last said that we are no heir of it."""
    end_heard_us: int = -1
    """By ours: when we heard that."""
    mute_us: int = -1
    """Until when we do not vouch for it, because we have testified that it is silent."""
    unsure: bool = False
    """We may be behind with it: it is asked until it greets us."""
    more_us: int = -1
    """When it was last asked for a greeting."""
    trip_us: int = 0
    """How long its answers take; 0: not known."""

    def take_trip(self, sample_us: int) -> None:
        self.trip_us = (
            self.trip_us + (sample_us - self.trip_us) // 8 if self.trip_us else max(1, sample_us)
        )

    def hear(self, now_us: int) -> bool:
        """It has said something; was it suspect?"""
        self.heard_us = now_us
        if self.suspect_us < 0:
            return False
        self.suspect_us = -1
        return True

    def suspect(self, now_us: int) -> None:
        self.suspect_us = now_us

    def count_from(self, now_us: int) -> None:
        """Silence is not counted from before."""
        self.since_us = now_us

    def greet_at(self, next_us: int) -> None:
        self.next_us = next_us

    def confirm(self, now_us: int) -> None:
        """It says that it is still what we know."""
        self.marked_us = now_us

    def take_hail(self, hail: Hail, now_us: int) -> None:
        """It has said what it is now."""
        self.unsure, self.born_us, self.marked_us = False, hail.born_us, now_us
        self.mark, self.heirs, self.leaving = hail.mark, hail.heirs, hail.leaving

    def take_heirs(self, heirs: tuple[Address, ...]) -> None:
        self.heirs = heirs

    def ask_more(self, now_us: int, pause_us: int) -> bool:
        """We are behind with it; is it time to ask it for a greeting?"""
        self.unsure = True
        if now_us - self.more_us <= pause_us:
            return False
        self.more_us = now_us
        return True

    def echo(self, stamp_us: int) -> None:
        """It has echoed this stamp of ours."""
        if stamp_us > self.echo_us:
            self.echo_us = stamp_us

    def end(self, stamp_us: int, now_us: int, late_us: int) -> None:
        """It has said at this time that we are no heir of it."""
        if stamp_us > self.ended_us or now_us - self.end_heard_us > late_us:
            self.ended_us, self.end_heard_us = stamp_us, now_us

    def is_over(self, stamp_us: int, now_us: int, late_us: int) -> bool:
        """Was a copy of this time on its way when it said so? No word is late for longer."""
        return stamp_us < self.ended_us and now_us - self.end_heard_us <= late_us

    def mute(self, until_us: int) -> None:
        self.mute_us = until_us


class Circle(SurfacePart):
    """Knows peers by their words and their silence."""

    __slots__ = ("_back_us", "_calm", "_calm_us", "missed", "news")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.news: dict[Address, News] = {}
        self.missed: Recent[Address, tuple[int, int]] = Recent(self.timers.missed_max)
        """Peers that fell silent: since when, and when they are greeted next."""
        self._back_us = -REUNION_US
        """When a peer that had been given up was last heard again."""
        self._calm_us = -1
        """Before this time no neighbour's turn comes and none is silent for too long, unless `look_by` says so; ..."""
        self._calm: tuple[list[Address], tuple[Address, ...]] = ([], ())
        """... as long as these very ones are our neighbours and heirs."""

    def concern(self, peer: Address) -> News:
        """What is known of a peer, from now on if nothing was."""
        news = self.news.get(peer)
        if news is None:
            news = self.news[peer] = News(self.host.now_us, next_us=self.host.now_us)
        return news

    def acquaint(
        self, peer: Address, mark: int, heirs: tuple[Address, ...], trip_us: int, greet_us: int
    ) -> None:
        """Know a neighbour from the beginning, as if it had just been heard."""
        now_us, echo_us = self.host.now_us, self.host.now_us if peer in self.surface.heirs else -1
        news = self.news[peer] = News(
            now_us, now_us, now_us, mark, now_us, heirs, next_us=greet_us, echo_us=echo_us
        )
        news.take_trip(trip_us)

    def is_new_incarnation(self, peer: Address, born_us: int) -> bool:
        """Is the peer that we knew at this address dead, since another life has begun there?"""
        news = self.news.get(peer)
        return news is not None and 0 <= news.born_us < born_us

    def begin_anew(self, peer: Address, born_us: int) -> None:
        """Of the one that was at this address nothing matters any more but how far it is."""
        before, now_us = self.news[peer], self.host.now_us
        self.news[peer] = News(
            now_us,
            born_us,
            now_us,
            marked_us=now_us,
            ended_us=born_us,
            end_heard_us=now_us,
            trip_us=before.trip_us,
        )
        self.missed.pop(peer, None)
        self.look_by(now_us)
        self.surface.routes.redraw()

    def heirs_of(self, owner: Address) -> tuple[Address, ...]:
        news = self.news.get(owner)
        return news.heirs if news is not None else ()

    def heard(self, peer: Address) -> None:
        """Any word is a sign of life."""
        news = self.news.get(peer)
        if news is not None and news.hear(self.host.now_us):
            self.surface.routes.redraw()
        if self.missed:
            missed = self.missed.pop(peer, None)
            if missed is not None:
                self._is_back(missed[0])

    def _is_back(self, since_us: int) -> None:
        """Where one was only cut off others may have been: all who are missed are greeted at the next tick. Two who
        were given up and are back in a row are the end of a partition."""
        now_us = self.host.now_us
        for each, (since, due_us) in self.missed.items():
            self.missed[each] = (since, min(due_us, now_us))
        if now_us - since_us > self.timers.dead_us:
            if now_us - self._back_us < REUNION_US:
                self.surface.tenant.reunited()
            self._back_us = now_us

    def took(self, peer: Address, trip_us: int) -> None:
        """An answer took so long."""
        news = self.news.get(peer)
        if news is not None:
            news.take_trip(trip_us)

    def latency_us(self, peer: Address) -> float:
        news = self.news.get(peer)
        return news.trip_us / 2 if news is not None and news.trip_us else UNKNOWN_US

    def silence_us(self, peer: Address) -> int:
        """How long a peer that concerns us has said nothing."""
        news = self.concern(peer)
        return self.host.now_us - max(news.heard_us, news.since_us)

    def is_heard(self, peer: Address, within_us: int) -> bool:
        news = self.news.get(peer)
        return news is not None and self.host.now_us - news.heard_us <= within_us

    def is_suspect(self, peer: Address) -> bool:
        news = self.news.get(peer)
        return news is not None and news.suspect_us >= 0

    def suspect(self, peer: Address) -> None:
        """It did not answer. Where nothing is assured nobody would clear it of that, so it is not held against it."""
        if not self.surface.terms.assured:
            return
        news = self.concern(peer)
        if news.suspect_us < 0:
            news.suspect(self.host.now_us)
            self.look_by(self.host.now_us)
            self.surface.routes.redraw()
        self.missed.once(peer, (self.host.now_us, self.host.now_us + self.timers.meet_us))

    def unanswered(self, key: Any, question: Question) -> None:
        """It was asked as often as we ask anybody."""
        self.suspect(question.to)

    def look_by(self, time_us: int) -> None:
        """Somebody's turn comes then, or is in doubt until then."""
        if time_us < self._calm_us:
            self._calm_us = time_us

    def tend(self) -> bool:
        """At each tick: greet neighbours whose turn it is, and heirs that have not echoed. If any neighbour is silent,
        suspect, or its greeting awaited, look closer, and say so. Two ticks in five have nobody to look at."""
        near, heirs, now_us = (
            self.surface.plot.neighbours(),
            self.surface.succession.heirs,
            self.host.now_us,
        )
        if now_us < self._calm_us and self._calm[0] is near and self._calm[1] is heirs:
            return False
        self._calm, self._calm_us = (near, heirs), NEVER_US
        due, troubled = self._look_at(near, now_us)
        hello_us, known = self.timers.hello_us, self.news
        for heir in heirs:
            echo_us = (known.get(heir) or self.concern(heir)).echo_us
            if echo_us + hello_us <= now_us:
                due[heir] = None
            self.look_by(echo_us + hello_us)
        if due:
            self._greet(due)
            self.look_by(min([known[each].next_us for each in due]))
        if troubled:
            self.look_by(now_us)
            self._face_silence()
        return troubled

    def _look_at(self, near: list[Address], now_us: int) -> tuple[dict[Address, None], bool]:
        """Neighbours whose turn it is; and is anything wrong with any of them?"""
        due, troubled, self_us, known = dict[Address, None](), False, self.timers.self_us, self.news
        silent_us, first_us, calm_us = now_us - self_us, now_us, NEVER_US
        for peer in near:
            news = known.get(peer) or self.concern(peer)
            if news.unsure:
                self.surface.greetings.ask_more(peer)
            heard_us, next_us = news.heard_us, news.next_us
            if (
                news.unsure
                or news.suspect_us >= 0
                or (heard_us < silent_us and news.since_us < silent_us)
            ):
                troubled = True
            if next_us <= now_us:
                due[peer] = None
            elif next_us < calm_us:
                calm_us = next_us
            if heard_us < first_us:
                first_us = heard_us
        self.look_by(min(calm_us, first_us + self_us))
        return due, troubled

    def _greet(self, peers: Iterable[Address]) -> None:
        """Greet those whose answer is not awaited anyway."""
        is_open = self.surface.greeter.open
        self.surface.greetings.hail([each for each in peers if not is_open("hail", each)])

    def _face_silence(self) -> None:
        """Suspect the silent; in the place of suspects, greet their heirs: they and we must know of each other."""
        heirs: dict[Address, None] = {}
        for peer in dict.fromkeys((*self.surface.plot.neighbours(), *self.surface.heirs)):
            if not self.is_suspect(peer) and self.silence_us(peer) > self.timers.self_us:
                self.suspect(peer)
            if self.is_suspect(peer):
                heirs.update(dict.fromkeys(self.heirs_of(peer)))
        heirs.pop(self.address, None)
        self._greet(each for each in heirs if self.concern(each).next_us <= self.host.now_us)

    def greet_missed(self) -> None:
        """Those that fell silent may be back, or a cut healed: ask at pauses that grow with the silence."""
        timers, now_us = self.timers, self.host.now_us
        for peer, (since_us, due_us) in list(self.missed.items()) if self.missed else ():
            if now_us - since_us > timers.long_us:
                del self.missed[peer]
            elif now_us >= due_us:
                self.missed[peer] = (
                    since_us,
                    now_us + max(timers.meet_us, (now_us - since_us) // 4),
                )
                if not self.surface.greeter.open("hail", peer):
                    self.host.send(peer, self.surface.greetings.hail_for(peer))

    def wake_late(self) -> None:
        """We slept: nobody's silence counts from before now."""
        for news in self.news.values():
            news.count_from(self.host.now_us)

    def forget_strangers(self) -> None:
        """Keep what is known of those who concern us; of the others, those heard longest ago go first."""
        if len(self.news) <= self.timers.news_max:
            return
        surface = self.surface
        near = {*surface.plot.neighbours(), *surface.heirs, *surface.estates.held, *self.missed}
        strangers = sorted(
            (each for each in self.news if each not in near),
            key=lambda each: self.news[each].heard_us,
        )
        for each in strangers[: max(0, len(self.news) - self.timers.news_max // 2)]:
            del self.news[each]
