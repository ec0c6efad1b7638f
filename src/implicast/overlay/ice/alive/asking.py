"""Questions until they are answered, and what is known of those who are asked.

One rule for every question: send, wait, twice as long each time, so many times in all; then the other is *suspect*
until any word comes from it. A suspect is not dead: it is only not used as a next hop while somebody else will do.
An alarm that rings late says that we slept, not the other: that attempt does not count.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import msgspec

from implicast.overlay.ice.alive.estate import Keeper
from implicast.overlay.ice.alive.ground import Ground
from implicast.overlay.ice.alive.messages import AskAgain, Circle
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.table import UNKNOWN_US
from implicast.peer.contract import Address, Host, Message, handles

Key = tuple[Hashable, ...]
REUNION_US = 10_000_000
"""Those who come back within this time of each other were cut off together."""


@dataclass(slots=True)
class News:
    """What is known of one peer."""

    since_us: int
    """Since when it concerns us: silence is not counted from before."""
    heard_us: int = -1
    """Its last word; -1: none yet."""
    mark: int = -1
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
    mute_us: int = -1
    """Until when we do not vouch for it, because we have testified that it is silent."""
    unsure: bool = False
    """We may be behind with it: it is asked until it greets us."""
    more_us: int = -1
    """When it was last asked for a greeting."""
    applied: tuple[int, int, int] = (-1, 0, 0)
    """The last greeting that was learnt from (mark, gifts), and how our own atlas was after that."""
    trip_us: int = 0
    deviation_us: int = 0

    def take_trip(self, sample_us: int) -> None:
        off_us, deviation_us = sample_us - self.trip_us, self.deviation_us
        if off_us == sample_us:
            self.trip_us, self.deviation_us = sample_us, sample_us // 2
        elif off_us or deviation_us:  # else it takes what it always takes
            self.deviation_us = deviation_us + (abs(off_us) - deviation_us) // 4
            self.trip_us += off_us // 8

    def wait_us(self, life: Life) -> int:
        """How long a question waits for its first answer."""
        if not self.trip_us:
            return life.rto_us
        wait_us, least_us = self.trip_us + 4 * self.deviation_us, life.rto_us // 2
        if wait_us <= least_us:
            wait_us = least_us
        return wait_us if wait_us < life.cap_us else life.cap_us


class Ask(msgspec.Struct):
    """An open question. A struct, because one is made for every greeting and hop: a third of the cost."""

    key: Key
    to: Address
    message: Message
    left: int
    tries: int
    wait_us: int
    sent_us: int
    lost: "Lost"
    repeated: bool = False


Lost = Callable[[Ask], None]
"""What is done about a question that nobody answered."""


class Asking(Ground):
    """Repeats questions, measures round trips, knows who is suspect."""

    __slots__ = (
        "_around", "_back_us", "_circle", "_silent_us", "_wary", "asks", "missed", "news", "quiet_us", "reunited",
    )  # fmt: skip

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.news: dict[Address, News] = {}
        self._around: tuple[Circle, ...] | None = None
        """What heirs are told of our neighbours (`greeting.py`); None when it has to be made again."""
        self._circle: dict[Address, News] = {}
        """Neighbours with what is known of them; empty when that has to be looked up again."""
        self._wary = True
        """Somebody around may be suspect, or somebody's greeting be awaited."""
        self._silent_us = 0
        """Before this time nobody around can have been silent for too long."""
        self.asks: dict[Key, Ask] = {}
        self.missed: dict[Address, tuple[int, int]] = {}
        """Peers that fell silent: since when, and when they are greeted next."""
        self.quiet_us = 0
        """Before this time nobody is to be greeted, nor can anybody's silence matter."""
        self._back_us = -REUNION_US
        """When somebody who had been given up was last heard again."""
        self.reunited: Callable[[], None] = lambda: None
        """Told when a partition seems to have ended."""

    # --- who is there

    def resurvey(self) -> None:
        super().resurvey()
        self._circle, self._around = {}, None

    def concern(self, peer: Address) -> News:
        """What is known of a peer, from now on if nothing was."""
        news = self.news.get(peer)
        if news is None:
            news = self.news[peer] = News(self.host.now_us, next_us=self.host.now_us)
        return news

    def heard(self, peer: Address) -> None:
        """Any word is a sign of life."""
        news = self.news.get(peer)
        if news is not None:
            news.heard_us = self.host.now_us
            if news.suspect_us >= 0:
                news.suspect_us = -1
                self._table = None
        if self.missed:
            missed = self.missed.pop(peer, None)
            if missed is not None:
                self._is_back(missed[0])

    def _is_back(self, since_us: int) -> None:
        """Where one was only cut off others may have been: all who are missed are greeted at the next tick. Two who
        were given up and are back in a row are the end of a partition."""
        now_us = self.host.now_us
        if self.missed:
            self.missed = {each: (since, min(due_us, now_us)) for each, (since, due_us) in self.missed.items()}
            self.quiet_us = 0
        if now_us - since_us > self.life.dead_us:
            if now_us - self._back_us < REUNION_US:
                self.reunited()
            self._back_us = now_us

    def silence_us(self, peer: Address) -> int:
        """How long a peer that concerns us has said nothing."""
        news = self.concern(peer)
        return self.host.now_us - max(news.heard_us, news.since_us)

    def suspect(self, peer: Address) -> None:
        news = self.concern(peer)
        if news.suspect_us < 0:
            news.suspect_us = self.host.now_us
            self._wary = True
            self._table = None
            self.suspected(peer)
        self._miss(peer)

    def suspected(self, peer: Address) -> None:
        """See `heirs.py`."""

    def _miss(self, peer: Address) -> None:
        if peer not in self.missed:
            if len(self.missed) >= self.life.missed_max:
                del self.missed[next(iter(self.missed))]
            self.missed[peer] = (self.host.now_us, self.host.now_us + self.life.meet_us)
            self.quiet_us = 0

    def is_suspect(self, peer: Address) -> bool:
        news = self.news.get(peer)
        return news is not None and news.suspect_us >= 0

    def latency_us(self, peer: Address) -> float:
        news = self.news.get(peer)
        return news.trip_us / 2 if news is not None and news.trip_us else UNKNOWN_US

    def wake_late(self, by_us: int) -> None:
        """We slept: nobody's silence counts from before now."""
        for news in self.news.values():
            news.since_us = self.host.now_us

    # --- questions

    def ask(self, key: Key, to: Address, message: Message, tries: int, lost: Lost) -> None:
        """Send until answered, at most so many times; anew if the same was asked before."""
        self.host.send(to, message)
        wait_us = self._pose(key, to, message, tries, lost)
        if wait_us:
            self.host.after(wait_us, AskAgain((key,), self.host.now_us + wait_us))

    def ask_all(self, questions: Iterable[tuple[Key, Address, Message]], tries: int, lost: Lost) -> None:
        """`ask` of several at once: those that wait equally long share an alarm."""
        waits: dict[int, tuple[Key, ...]] = {}
        send, pose = self.host.send, self._pose
        for key, to, message in questions:
            send(to, message)
            wait_us = pose(key, to, message, tries, lost)
            waits[wait_us] = (*waits[wait_us], key) if wait_us in waits else (key,)
        now_us = self.host.now_us
        for wait_us, keys in waits.items():
            if wait_us:
                self.host.after(wait_us, AskAgain(keys, now_us + wait_us))

    def _pose(self, key: Key, to: Address, message: Message, tries: int, lost: Lost) -> int:
        """Note a question that was sent; how long it waits, or 0: there is no room for it."""
        asks, life = self.asks, self.life
        if len(asks) >= life.asks_max and key not in asks:
            return 0
        news = self.news.get(to)
        wait_us = life.rto_us if news is None else news.wait_us(life)
        asks[key] = Ask(key, to, message, tries - 1, tries, wait_us, self.host.now_us, lost)
        return wait_us

    def answered(self, key: Key, sender: Address) -> Ask | None:
        """The question that this answers, or None if nobody awaits it (any more)."""
        ask = self.asks.get(key)
        if ask is None or ask.to != sender:
            return None
        del self.asks[key]
        if not ask.repeated:
            news = self.news.get(sender)
            if news is not None:
                news.take_trip(self.host.now_us - ask.sent_us or 1)
        return ask

    def go_on(self, key: Key, sender: Address) -> None:
        """The other is alive and busy: the attempts made so far do not count."""
        ask = self.asks.get(key)
        if ask is not None and ask.to == sender:
            ask.left = ask.tries

    @handles(AskAgain)
    def on_ask_again(self, alarm: AskAgain) -> None:
        asks = self.asks
        for key in alarm.keys:
            ask = asks.get(key)
            if ask is not None and alarm.due_us == ask.sent_us + ask.wait_us:
                self._unanswered(ask, late=self.host.now_us - alarm.due_us > self.life.rto_us)

    def _unanswered(self, ask: Ask, late: bool) -> None:
        if ask.left <= 0 and not late:
            del self.asks[ask.key]
            ask.lost(ask)
            return
        ask.left -= 0 if late else 1
        ask.repeated = True
        ask.wait_us = min(2 * ask.wait_us, self.life.cap_us)
        ask.sent_us = self.host.now_us
        self.host.send(ask.to, ask.message)
        self.host.after(ask.wait_us, AskAgain((ask.key,), ask.sent_us + ask.wait_us))
