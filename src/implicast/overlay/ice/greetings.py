"""How neighbours keep track of each other: greetings with stamps and marks, echoes, better titles.

A quiet pair exchanges one greeting in a period, whoever's turn comes first: the echo carries the answerer's own stamp
where it needs an echo in turn. Greetings are questions (`share.py`), so silence is probed at once, and a change is
known to all neighbours although messages get lost. Correction on use: echoes and hops carry the sender's mark, and who
does not know that mark asks for more; who hears a claim that is worse than what it knows answers with better titles.
"""

from collections.abc import Iterable

from implicast.overlay.ice.atlas import overlap
from implicast.overlay.ice.circle import News
from implicast.overlay.ice.messages import Echo, Hail, More, Neighbour, Title, Titles
from implicast.overlay.ice.plot import PROVISIONAL
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.tract import subtract

TITLES_MAX = 64
"""Better titles in one answer."""


class Hails(SurfacePart):
    """Keeps the atlas true, here and at the neighbours."""

    __slots__ = ("_learnt", "gifts", "mark")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.mark = surface.born_us + 1
        """Rises whenever our pieces, their status or our heirs change, from life to life too."""
        self.gifts: list[tuple[int, Title]] = []
        """Titles that others should know of what we parted with, and since when."""
        self._learnt: Recent[Address, tuple[int, int, int]] = Recent(self.timers.news_max)
        """The last greeting of a peer that was learnt from (mark, gifts), and how our own atlas was after that."""
        surface.greeter.topic(
            "hail", self.timers.patience(self.timers.tries_hail), surface.circle.unanswered
        )

    def next_mark(self) -> None:
        self.mark += 1

    def hail_for(self, peer: Address) -> Hail:
        return self._hail(self.around() if peer in self.surface.succession.told else ())

    def _hail(self, around: tuple[Neighbour, ...]) -> Hail:
        plot, succession = self.surface.plot, self.surface.succession
        provisional = tuple(plot.of_status(PROVISIONAL)) if plot.status else ()
        pieces = (
            tuple(each for each in plot.pieces if each not in provisional)
            if provisional
            else tuple(plot.pieces)
        )
        gifts = tuple([title for _, title in self.gifts]) if self.gifts else ()
        return Hail(
            self.host.now_us,
            self.surface.born_us,
            self.mark,
            pieces,
            provisional,
            succession.heirs,
            succession.becoming(),
            self.surface.leaving,
            gifts,
            around,
        )

    def around(self) -> tuple[Neighbour, ...]:
        """The neighbours' titles, each with its owner's heirs: what an heir needs to act in our place."""
        heirs_of = self.surface.circle.heirs_of
        return tuple([(each, heirs_of(each.owner)) for each in self.surface.plot.others])

    def hail(self, peers: Iterable[Address]) -> None:
        surface, next_us = self.surface, self.host.now_us + self.timers.hello_us
        plain: Hail | None = (
            None  # the very same to all but heirs: what is known of it is found out once
        )
        known, concern, told = surface.circle.news, surface.circle.concern, surface.succession.told
        surface.circle.look_by(next_us)
        for peer in peers:
            if peer == self.address:
                continue
            (known.get(peer) or concern(peer)).greet_at(next_us)
            if peer in told:
                hail = self._hail(self.around())
            else:
                hail = plain = plain or self._hail(())
            surface.greeter.ask("hail", peer, peer, hail)

    @handles(Hail)
    def on_hail(self, sender: Address, hail: Hail) -> None:
        if sender == self.address:
            return  # nobody tells us what is ours
        surface, circle, now_us, mark = (
            self.surface,
            self.surface.circle,
            self.host.now_us,
            hail.mark,
        )
        surface.met(sender, hail.born_us)
        news = circle.news.get(sender) or circle.concern(sender)
        denied = (mark < news.mark or hail.born_us < news.born_us) and self._is_denied(sender, news)
        if hail.born_us < news.born_us and not denied:
            return  # said in a life that is over
        circle.heard(sender)
        news.greet_at(now_us + self.timers.turn_us)
        own_us = now_us if sender in surface.succession.heirs else 0
        if mark >= news.mark or denied:
            news.take_hail(hail, now_us)
            surface.estates.hailed(sender, hail)
            learnt = (mark, len(hail.gifts), surface.plot.version)
            if self._learnt.get(sender) != learnt:
                self._learnt.pop(sender, None)
                if not self._learn_from(sender, hail):  # else our correction may get lost
                    self._learnt[sender] = (*learnt[:2], surface.plot.version)
        stamp_us = surface.estates.vouched(sender, hail.stamp_us, mark)
        self.host.send(sender, Echo(stamp_us, self.mark, own_us, surface.estates.holds(sender)))

    def _is_denied(self, sender: Address, news: News) -> bool:
        """A peer says of itself less than we know of it: has no word of it confirmed that for long? Marks and lives
        only rise, and a word is not late for so long: what we know was never so, and what rests on it goes."""
        if self.host.now_us - news.marked_us <= self.timers.self_us:
            return False
        self.surface.estates.held.pop(sender, None)
        self.surface.plot.atlas.drop(self.surface.plot.atlas.of(sender))
        return True

    def _learn_from(self, sender: Address, hail: Hail) -> bool:
        """A greeting lists all that its sender has: what we thought it had besides is gone. True: we know better."""
        plot, atlas = self.surface.plot, self.surface.plot.atlas
        told = any(map(plot.is_news, hail.gifts)) or sender in [
            title.owner for _, title in self.gifts
        ]
        if not (told or hail.provisional) and atlas.has_exactly(sender, hail.pieces):
            return False  # there is nothing to learn, nor to correct: the usual case, at a third of the cost
        listed = (*hail.pieces, *hail.provisional)
        pieces = [(each, not atlas.better_than(each)) for each in hail.pieces]
        gone = [
            each
            for each in atlas.of(sender)
            if not _is_listed(each, listed) or _is_untrue(each, pieces)
        ]
        version = plot.version
        atlas.drop(gone)
        self._forget_denied(sender, listed)
        self.surface.hear((*hail.gifts, *hail.pieces), sender)
        if gone and plot.version == version:
            plot.survey()
        return self.correct(sender, listed)

    def _forget_denied(self, sender: Address, listed: tuple[Title, ...]) -> None:
        """What its owner denies is told no more: two that named each other kept a hole open for ever. A greeting that
        was on its way when the gift was made denies nothing."""
        known_us = self.host.now_us - self.timers.hello_us
        self.gifts = [
            (given_us, title)
            for given_us, title in self.gifts
            if title.owner != sender or given_us > known_us or _is_listed(title, listed)
        ]

    def correct(self, peer: Address, claimed: Iterable[Title]) -> bool:
        """Tell a peer of better titles than those it rests on; False if we know none."""
        plot = self.surface.plot
        granted = plot.of_status(PROVISIONAL)
        better = {title.low: title for each in claimed for title in plot.atlas.better_than(each)}
        known = [each for each in better.values() if each not in granted and each.owner != peer]
        if known:
            self.host.send(peer, Titles(tuple(known[:TITLES_MAX])))
        return bool(known)

    @handles(Echo)
    def on_echo(self, sender: Address, echo: Echo) -> None:
        surface = self.surface
        surface.circle.heard(sender)
        if surface.greeter.answered("hail", sender) is None and sender not in surface.circle.news:
            return
        surface.succession.echo_came(sender, echo.stamp_us, echo.has_estate)
        if echo.own_us:
            stamp_us = surface.estates.vouched(sender, echo.own_us, echo.mark)
            self.host.send(sender, Echo(stamp_us, self.mark, 0, surface.estates.holds(sender)))
        self.check_mark(sender, echo.mark)

    def check_mark(self, peer: Address, mark: int) -> None:
        """Ask for a greeting if the peer says that it is not what we know; not more often than answers can come."""
        news = self.surface.circle.news.get(peer)
        if news is None:
            return
        if news.mark == mark:
            news.confirm(self.host.now_us)
        elif news.mark < mark or self.host.now_us - news.marked_us > self.timers.self_us:
            self.ask_more(peer)

    def ask_more(self, peer: Address) -> None:
        """Ask for a greeting, and at each tick again until it comes."""
        circle, now_us = self.surface.circle, self.host.now_us
        circle.look_by(now_us)
        if circle.concern(peer).ask_more(now_us, self.timers.rto_us):
            self.host.send(peer, More())

    @handles(More)
    def on_more(self, sender: Address, more: More) -> None:
        self.surface.circle.heard(sender)
        self.hail([sender])

    @handles(Titles)
    def on_titles(self, sender: Address, better: Titles) -> None:
        self.surface.circle.heard(sender)
        self.surface.hear(better.titles, sender)

    def lost_to(self, winners: list[Title]) -> None:
        """Whoever still thinks that ground is ours should know to whom we lost it."""
        now_us, tract = self.host.now_us, self.surface.plot.tract
        self.gifts += [(now_us, each) for each in winners if subtract((each.low, each.high), tract)]

    def forget_gifts(self) -> None:
        since_us, most = self.host.now_us - 2 * self.timers.dead_us, self.timers.gifts_max
        self.gifts = [each for each in self.gifts if each[0] >= since_us][-most:]


def _is_untrue(title: Title, pieces: Iterable[tuple[Title, bool]]) -> bool:
    """Is it not what its owner has there, given the owner's pieces, and whether they are undisputed?

    It may be better than what the owner has ever had, said by others in its name: no word of its own would win. Or it
    is a fragment of what the owner has, because a better title once took the rest, and is gone.
    """
    return any(
        overlap(title, piece)
        and (
            title.epoch > piece.epoch
            or (undisputed and piece.bits < title.bits and piece.epoch == title.epoch)
        )
        for piece, undisputed in pieces
    )


def _is_listed(title: Title, listed: Iterable[Title]) -> bool:
    return any(piece.low <= title.low and title.high <= piece.high for piece in listed)
