"""Heirs and estates: whoever may have to act in an owner's place holds a copy of all the owner keeps, beforehand.

An owner picks its heirs among its neighbours, copies its whole estate to each (`CopyEstate`), and from then on every
change (`Backup`). A batch *counts* when every heir, and whoever is being copied to, has acknowledged it: only then may
the keeper call anything complete. The echo rule: an owner that none of its heirs has echoed for `self_us` is doubtful
and answers nothing, so it has fallen silent before anybody takes its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

from implicast.overlay.ice.alive.asking import Ask
from implicast.overlay.ice.alive.estate import Item, Keeper
from implicast.overlay.ice.alive.ground import SEIZED
from implicast.overlay.ice.alive.inheriting import Inheriting, in_parts
from implicast.overlay.ice.alive.messages import BackedUp, Backup, Copied, CopyEstate, NoEstate
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import tract_of
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import volume


@dataclass(slots=True)
class Batch:
    """Items that await acknowledgement by heirs."""

    waiting: set[Address]
    then: Callable[[], None]


@dataclass(slots=True)
class Copying:
    """An estate on its way to a peer that is to be an heir, part by part."""

    number: int
    parts: list[tuple[Item, ...]]
    serial: int
    at: int = 0


class Heirs(Inheriting):
    """The owner's side of inheritance: who our heirs are, and what they have been told."""

    __slots__ = ("_copying", "batches", "serial")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.batches: dict[int, Batch] = {}
        self.serial = 0
        """Orders what we tell our heirs."""
        self._copying: Copying | None = None

    # --- the echo rule

    @property
    def is_doubtful(self) -> bool:
        """No heir has lately said that it heard us: somebody may be about to take our place."""
        return self.host.now_us - self.echoed_us > self.life.self_us and not self.alone

    def echo_came(self, heir: Address, stamp_us: int, has_estate: bool) -> None:
        if heir not in self.heirs:
            return
        if not has_estate:
            self.drop_heir(heir)
            return
        news = self.news.get(heir) or self.concern(heir)
        if stamp_us > news.echo_us:
            news.echo_us = stamp_us
        self._echoed(stamp_us)

    def _echoed(self, stamp_us: int) -> None:
        if stamp_us <= self.echoed_us:
            return
        doubtful = self.is_doubtful
        self.echoed_us = stamp_us
        if doubtful and not self.is_doubtful:
            self.keeper.settled()
            self.unpark()
            self.count_batches()

    # --- choosing

    def choose_heirs(self) -> None:
        """At each tick: replace heirs that are silent, leaving or no neighbours any more, one at a time."""
        if self.alone:
            self.echoed_us = self.host.now_us
        if sum(map(self._is_fit, self.heirs)) >= self.life.heirs:
            return
        self._bury_suspects()
        if self._copying is not None and ("copy", self._copying.number) not in self.asks:
            self._end_copying()  # there was no room among the questions
        if self.syncing is None and (self.ground or self.of_status(SEIZED)):
            candidates = [each for each in self.neighbours() if each not in self.heirs and self._is_fit(each)]
            if candidates:
                self._copy_to(min(candidates, key=self._preference))

    def _is_fit(self, peer: Address) -> bool:
        news = self.news.get(peer)
        return news is not None and news.suspect_us < 0 and not news.leaving and peer in self._near

    def _bury_suspects(self) -> None:
        """An heir that has been suspect for long counts no more, replaced or not: batches do not wait for it."""
        for heir in self.heirs:
            since_us = self.concern(heir).suspect_us
            if since_us >= 0 and self.host.now_us - since_us > self.life.patience_us:
                self.drop_heir(heir)

    def _preference(self, peer: Address) -> tuple[bool, int, Address]:
        """First the owner of the sibling of our largest piece, then the smallest tract, then the smallest id."""
        largest = min(self.pieces, key=lambda title: (title.bits, title.low))
        other = self.lone_sibling(largest)
        return other is None or other.owner != peer, volume(tract_of(self.atlas.of(peer))), peer

    def drop_heir(self, heir: Address) -> None:
        if heir in self.heirs:
            self.heirs = tuple(each for each in self.heirs if each != heir)
            self._excuse(heir)
            self.announce([heir])
            self.count_batches()

    def _excuse(self, peer: Address) -> None:
        """Batches wait for it no more."""
        for number, batch in self.batches.items():
            batch.waiting.discard(peer)
            self.asks.pop(("backup", number, peer), None)

    # --- copying

    def _copy_to(self, peer: Address) -> None:
        self.syncing = peer
        self.serial += 1
        items = self.keeper.pack(self.tract)
        self._copying = Copying(self.next_number(), in_parts(items, self.life.part_bytes), self.serial)
        self._send_copy()

    def _send_copy(self) -> None:
        copying, peer = self._copying, self.syncing
        assert copying is not None
        assert peer is not None
        heirs = (*self.heirs, peer)
        copy = CopyEstate(
            copying.number, copying.at, len(copying.parts), copying.serial, self.host.now_us, self.mark,
            tuple(self.pieces), heirs, self.around(), copying.parts[copying.at],
        )  # fmt: skip
        self.ask(("copy", copying.number), peer, copy, self.life.tries_copy, self._uncopied)

    def _uncopied(self, ask: Ask) -> None:
        self.suspect(ask.to)
        self._end_copying()

    def _end_copying(self) -> None:
        if self.syncing is not None:
            peer, self.syncing, self._copying = self.syncing, None, None
            self._excuse(peer)
            self.count_batches()

    @handles(Copied)
    def on_copied(self, sender: Address, copied: Copied) -> None:
        self.heard(sender)
        copying = self._copying
        if copying is None or copying.number != copied.number or copying.at != copied.part or sender != self.syncing:
            return
        self.answered(("copy", copied.number), sender)
        copying.at += 1
        if copying.at < len(copying.parts):
            self._send_copy()
        else:
            self._become_heir(sender, copied.stamp_us)

    def _become_heir(self, peer: Address, stamp_us: int) -> None:
        """The copy is whole. Heirs that are not fit go, as far as they are replaced."""
        self.syncing = self._copying = None
        staying = sorted(self.heirs, key=lambda each: not self._is_fit(each))[: self.life.heirs - 1]
        gone = [each for each in self.heirs if each not in staying]
        self.heirs = (*staying, peer)
        for each in gone:
            self._excuse(each)
        self.concern(peer).echo_us = stamp_us
        self._echoed(stamp_us)
        self.announce(gone)
        self.count_batches()

    # --- batches

    def batch(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Back items up at all heirs; `then` is called when that counts. False: too many are waiting already."""
        if len(self.batches) >= self.life.batches_max or len(self.asks) + self.life.heirs >= self.life.asks_max:
            return False
        self.serial += 1
        number = self.next_number()
        receivers = [each for each in (*self.heirs, self.syncing) if each is not None]
        self.batches[number] = Batch(set(receivers), then)
        backup = Backup(number, self.serial, self.host.now_us, self.mark, tuple(self.pieces), items)
        for peer in receivers:
            self.ask(("backup", number, peer), peer, backup, self.life.tries_backup, self._unbacked)
        self.count_batches()
        return True

    def _unbacked(self, ask: Ask) -> None:
        self.suspect(ask.to)
        if ask.to == self.syncing:
            self._end_copying()
        self.drop_heir(ask.to)

    @handles(BackedUp)
    def on_backed_up(self, sender: Address, backed: BackedUp) -> None:
        self.heard(sender)
        batch = self.batches.get(backed.number)
        self.answered(("backup", backed.number, sender), sender)
        self.echo_came(sender, backed.stamp_us, True)
        if batch is not None:
            batch.waiting.discard(sender)
            self._count(backed.number)

    @handles(NoEstate)
    def on_no_estate(self, sender: Address, none: NoEstate) -> None:
        self.heard(sender)
        if sender == self.syncing:
            self._end_copying()  # a backup overtook the copy it adds to: the copy begins anew, with it in it
        self.drop_heir(sender)

    def count_batches(self) -> None:
        for number in list(self.batches):
            self._count(number)

    def _count(self, number: int) -> None:
        """Does this batch count by now?"""
        batch = self.batches.get(number)
        if batch is None or batch.waiting or not (self.heirs or self.alone) or self.is_doubtful:
            return
        del self.batches[number]
        batch.then()
