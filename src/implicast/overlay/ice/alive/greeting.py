"""How living neighbours keep track of each other: greetings with stamps and marks, echoes, better titles.

A quiet pair exchanges one greeting in a period, whoever's turn comes first: the echo carries the answerer's own stamp
where it needs an echo in turn. Greetings are questions (`asking.py`), so silence is probed at once, and a change is
known to all neighbours although messages get lost. Correction on use: echoes and hops carry the sender's mark, and who
does not know that mark asks for more; who hears a claim that is worse than what it knows answers with better titles.
"""

from collections.abc import Iterable

from implicast.overlay.ice.alive.asking import Ask, Asking, Key
from implicast.overlay.ice.alive.estate import Keeper
from implicast.overlay.ice.alive.ground import PROVISIONAL
from implicast.overlay.ice.alive.messages import Circle, Echo, Hail
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import overlap
from implicast.overlay.ice.messages import More, Title, Titles
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import subtract

TITLES_MAX = 64
"""Better titles in one answer."""


class Greeting(Asking):
    """Keeps the atlas true."""

    __slots__ = ("echoed_us", "heirs", "syncing")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.heirs: tuple[Address, ...] = ()
        self.syncing: Address | None = None
        self.echoed_us = host.now_us
        """The newest stamp of ours that an heir has echoed."""

    # --- hooks of the modules above

    def holds_estate(self, owner: Address) -> bool:
        """Do we hold a complete copy of an owner's estate? `heirs.py`."""
        return False

    def vouched(self, owner: Address, stamp_us: int, mark: int) -> int:
        """An owner's stamp, if we may say as its heir that nobody else has its place; else 0: `inheriting.py`."""
        return stamp_us

    def estate_hailed(self, owner: Address, hail: Hail) -> None:
        """A greeting may say that we are heirs no longer: `heirs.py`."""

    def echo_came(self, heir: Address, stamp_us: int, has_estate: bool) -> None:
        """Told of every echo of an heir: `heirs.py`."""

    # --- saying

    def hail_for(self, peer: Address) -> Hail:
        return self._hail(self.around() if peer in self.heirs or peer == self.syncing else ())

    def _hail(self, around: tuple[Circle, ...]) -> Hail:
        provisional = tuple(self.of_status(PROVISIONAL)) if self.status else ()
        pieces = tuple(each for each in self.pieces if each not in provisional) if provisional else tuple(self.pieces)
        gifts = tuple([title for _, title in self.gifts]) if self.gifts else ()
        copying = () if self.syncing is None else (self.syncing,)
        return Hail(self.host.now_us, self.mark, pieces, provisional, self.heirs, copying, self.leaving, gifts, around)

    def around(self) -> tuple[Circle, ...]:
        """The neighbours' titles, each with its owner's heirs: what an heir needs to act in our place."""
        if self._around is None:
            known = [(each, self.news.get(each.owner)) for each in self._others]
            self._around = tuple([(each, news.heirs if news is not None else ()) for each, news in known])
        return self._around

    def hail(self, peers: Iterable[Address]) -> None:
        next_us = self.host.now_us + self.life.hello_us
        if next_us < self.quiet_us:
            self.quiet_us = next_us
        plain: Hail | None = None  # the very same to all but heirs: what is known of it is found out once
        hails: list[tuple[Key, Address, Hail]] = []
        address, heirs, syncing, known = self.address, self.heirs, self.syncing, self.news
        for peer in peers:
            if peer == address:
                continue
            (known.get(peer) or self.concern(peer)).next_us = next_us
            if peer in heirs or peer == syncing:
                hails.append((("hail", peer), peer, self._hail(self.around())))
            else:
                plain = plain or self._hail(())
                hails.append((("hail", peer), peer, plain))
        self.ask_all(hails, self.life.tries_hail, self._unheard)

    def _unheard(self, ask: Ask) -> None:
        self.suspect(ask.to)

    def announce(self, before: Iterable[Address] = ()) -> None:
        """Our pieces, their status or our heirs have changed: tell old and new neighbours, and the keeper."""
        self.mark += 1
        self.resurvey()
        syncing = () if self.syncing is None else (self.syncing,)
        self.hail(sorted({*before, *self.neighbours(), *self.heirs, *syncing}))
        self.keeper.settled()
        self.unpark()

    def unpark(self) -> None:
        """Look again at what waited: `carrying.py`."""

    def check(self, owners: list[Address]) -> None:
        """A title that its owner has let go would otherwise go round among others for ever.

        Whoever's mark we do not know is asked anyway, at its first echo.
        """
        for owner in owners:
            if self.concern(owner).mark >= 0:
                self.ask_more(owner)

    def met(self, strangers: list[Address]) -> None:
        self.hail(strangers)
        self.unpark()

    # --- hearing

    @handles(Hail)
    def on_hail(self, sender: Address, hail: Hail) -> None:
        news, now_us = self.concern(sender), self.host.now_us
        self.heard(sender)
        news.next_us = now_us + self.life.turn_us
        own_us, mark = now_us if sender in self.heirs else 0, hail.mark
        if mark >= news.mark:
            news.unsure = False
            if hail.leaving is not news.leaving:
                self.quiet_us = 0  # it may be an heir, and is to be replaced
            if hail.heirs != news.heirs:
                self._around = None
            news.mark, news.heirs, news.leaving = mark, hail.heirs, hail.leaving
            self.estate_hailed(sender, hail)
            gifts = len(hail.gifts)
            if news.applied != (mark, gifts, self.version):
                corrected = self._learn_from(sender, hail)
                news.applied = (-1, 0, 0) if corrected else (mark, gifts, self.version)  # the correction may get lost
        stamp_us = self.vouched(sender, hail.stamp_us, mark)
        self.host.send(sender, Echo(stamp_us, self.mark, own_us, self.holds_estate(sender)))

    def _forget_denied(self, sender: Address, listed: tuple[Title, ...]) -> None:
        """What its owner denies is told no more: two that named each other kept a hole open for ever. A greeting that
        was on its way when the gift was made denies nothing."""
        known_us = self.host.now_us - self.life.hello_us
        self.gifts = [
            (given_us, title)
            for given_us, title in self.gifts
            if title.owner != sender or given_us > known_us or _is_listed(title, listed)
        ]

    def _learn_from(self, sender: Address, hail: Hail) -> bool:
        """A greeting lists all that its sender has: what we thought it had besides is gone. True: we know better."""
        if not (hail.gifts or hail.provisional or self.gifts) and self.atlas.has_exactly(sender, hail.pieces):
            return False  # there is nothing to learn, nor to correct: the usual case, at a third of the cost
        listed = (*hail.pieces, *hail.provisional)
        whole = [each for each in hail.pieces if not self.atlas.better_than(each)]
        # A better title once took a part of it and is gone: what is left over would stay a fragment.
        gone = [each for each in self.atlas.of(sender) if not _is_listed(each, listed) or _is_fragment(each, whole)]
        version = self.version
        self.atlas.drop(gone)
        if self.gifts:
            self._forget_denied(sender, listed)
        self.hear((*hail.gifts, *hail.pieces), sender)
        if gone and self.version == version:
            self.resurvey()
        return self.correct(sender, listed)

    def correct(self, peer: Address, claimed: Iterable[Title]) -> bool:
        """Tell a peer of better titles than those it rests on; False if we know none."""
        granted = self.of_status(PROVISIONAL)
        better = {title.low: title for each in claimed for title in self.atlas.better_than(each)}
        known = [each for each in better.values() if each not in granted and each.owner != peer]
        if known:
            self.host.send(peer, Titles(tuple(known[:TITLES_MAX])))
        return bool(known)

    @handles(Echo)
    def on_echo(self, sender: Address, echo: Echo) -> None:
        self.heard(sender)
        if self.answered(("hail", sender), sender) is None and sender not in self.news:
            return
        if sender in self.heirs:
            self.echo_came(sender, echo.stamp_us, echo.has_estate)
        if echo.own_us:
            stamp_us = self.vouched(sender, echo.own_us, echo.mark)
            self.host.send(sender, Echo(stamp_us, self.mark, 0, self.holds_estate(sender)))
        self.check_mark(sender, echo.mark)

    def check_mark(self, peer: Address, mark: int) -> None:
        """Ask for a greeting if the peer says that it is not what we know; not more often than answers can come."""
        news = self.news.get(peer)
        if news is not None and news.mark < mark:
            self.ask_more(peer)

    def ask_more(self, peer: Address) -> None:
        """Ask for a greeting, and at each tick again until it comes."""
        news = self.concern(peer)
        news.unsure = self._wary = True
        self.quiet_us = 0
        if self.host.now_us - news.more_us > self.life.rto_us:
            news.more_us = self.host.now_us
            self.host.send(peer, More())

    @handles(More)
    def on_more(self, sender: Address, more: More) -> None:
        self.heard(sender)
        self.hail([sender])

    @handles(Titles)
    def on_titles(self, sender: Address, better: Titles) -> None:
        self.heard(sender)
        self.hear(better.titles, sender)

    def forget_gifts(self) -> None:
        since_us = self.host.now_us - 2 * self.life.dead_us
        if self.gifts and (self.gifts[0][0] < since_us or len(self.gifts) > self.life.gifts_max):
            self.gifts = [each for each in self.gifts if each[0] >= since_us][-self.life.gifts_max :]

    def lost_to(self, winners: list[Title]) -> None:
        """Whoever still thinks that ground is ours should know to whom we lost it."""
        now_us = self.host.now_us
        self.gifts += [(now_us, each) for each in winners if subtract((each.low, each.high), self.tract)]


def _is_fragment(title: Title, whole: Iterable[Title]) -> bool:
    """Only a part of what its owner has under the same title."""
    return any(piece.bits < title.bits and piece.epoch == title.epoch and overlap(piece, title) for piece in whole)


def _is_listed(title: Title, listed: Iterable[Title]) -> bool:
    return any(piece.low <= title.low and title.high <= piece.high for piece in listed)
