"""The owner's side of inheritance: heirs, who hold a copy of all that an owner keeps, beforehand.

An owner picks its heirs among its neighbours, copies its whole estate to each (`CopyEstate`), and from then on every
change (`Backup`). A batch *counts* when every heir, and whoever is being copied to, has acknowledged it: only then may
the tenant call anything complete. The echo rule: an owner that none of its heirs has echoed for `self_us` is doubtful
and answers nothing, so it has fallen silent before anybody takes its place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.estate import Item
from implicast.overlay.ice.estates import Parcel, in_parts
from implicast.overlay.ice.messages import BackedUp, Backup, Copied, CopyEstate, NoEstate
from implicast.overlay.ice.plot import SEIZED
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.asking import Question
from implicast.peer.contract import Address, handles


@dataclass(slots=True)
class Copying(Parcel):
    """An estate on its way to a peer that is to be an heir."""

    to: Address
    serial: int


class Succession(SurfacePart):
    """Who our heirs are, and what they have been told."""

    __slots__ = ("_copying", "batches", "echoed_us", "heirs", "serial")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.heirs: tuple[Address, ...] = ()
        self.echoed_us = self.host.now_us
        """The newest stamp of ours that an heir has echoed."""
        self.batches: dict[int, tuple[set[Address], Callable[[], None]]] = {}
        """Items that await acknowledgement: by which heirs, and what is done when they count."""
        self.serial = 0
        """Orders what we tell our heirs."""
        self._copying: Copying | None = None
        surface.asker.topic("copy", self.timers.patience(self.timers.tries_copy), self._uncopied)
        surface.asker.topic(
            "backup", self.timers.patience(self.timers.tries_backup), self._unbacked
        )

    @property
    def told(self) -> tuple[Address, ...]:
        """Our heirs, and whom we copy to."""
        return self.heirs if self._copying is None else (*self.heirs, self._copying.to)

    def becoming(self) -> tuple[Address, ...]:
        """Who is being made an heir: whom we copy to, or the giver of our first piece, who has what it gave."""
        if self._copying is not None:
            return (self._copying.to,)
        receipt = self.surface.taker.receipt
        return (
            (receipt.giver,)
            if receipt is not None and receipt.taken_us >= 0 and not self.heirs
            else ()
        )

    def begin_with(self, heirs: tuple[Address, ...], echoed_us: int) -> None:
        """These have a copy already, and have said so at this time."""
        self.heirs, self.echoed_us = heirs, max(self.echoed_us, echoed_us)
        for heir in heirs:
            self.surface.circle.concern(heir).echo(echoed_us)

    def end(self) -> None:
        """All that we kept is lost to others."""
        self.heirs = ()
        self._end_copying()
        self.batches.clear()

    # --- the echo rule

    @property
    def is_doubtful(self) -> bool:
        """No heir has lately said that it heard us: another peer may be about to take our place."""
        late = self.host.now_us - self.echoed_us > self.timers.self_us
        return late and self.surface.terms.watched and bool(self.surface.plot.others)

    def echo_came(self, heir: Address, stamp_us: int, has_estate: bool) -> None:
        if heir not in self.heirs:
            return
        news = self.surface.circle.concern(heir)
        if has_estate:
            news.echo(stamp_us)
            self._echoed(stamp_us)
        elif stamp_us > news.echo_us:  # else it was said before it had the estate
            self.drop_heir(heir)

    def _echoed(self, stamp_us: int) -> None:
        if stamp_us <= self.echoed_us:
            return
        doubtful = self.is_doubtful
        self.echoed_us = stamp_us
        if doubtful and not self.is_doubtful:
            self.surface.tenant.settled()
            self.surface.routes.unpark()
            self._count_batches()

    # --- choosing

    def choose_heirs(self) -> None:
        """At each tick: replace heirs that are silent, leaving or no neighbours any more, one at a time."""
        surface, plot = self.surface, self.surface.plot
        if not plot.others:
            self.echoed_us = self.host.now_us
        if sum(map(self._is_fit, self.heirs)) >= self.timers.heirs:
            return
        for heir in (
            self.heirs
        ):  # one that has been suspect for long counts no more: batches do not wait for it
            since_us = surface.circle.concern(heir).suspect_us
            if since_us >= 0 and self.host.now_us - since_us > self.timers.patience_us:
                self.drop_heir(heir)
        copying = self._copying
        if copying is not None and not (
            surface.asker.open("copy", copying.number) and self._is_fit(copying.to)
        ):
            self._end_copying()  # there was no room among the questions, or it fell silent too: another will do
        if self._copying is None and (plot.firm or plot.of_status(SEIZED)):
            candidates = [
                each for each in plot.neighbours() if each not in self.heirs and self._is_fit(each)
            ]
            if candidates:
                largest = min(plot.pieces, key=lambda title: (title.bits, title.low))
                self._copy_to(min(candidates, key=lambda each: plot.preference(largest, each)))

    def _is_fit(self, peer: Address) -> bool:
        news = self.surface.circle.news.get(peer)
        return (
            news is not None
            and news.suspect_us < 0
            and not news.leaving
            and peer in self.surface.plot.neighbours()
        )

    def drop_heir(self, peer: Address) -> None:
        """A peer does not have what it was to hold of ours: it is no heir, nor made one now."""
        if self._copying is not None and peer == self._copying.to:
            self._end_copying()
        if peer in self.heirs:
            self.heirs = tuple(each for each in self.heirs if each != peer)
            self._excuse(peer)
            self.surface.announce([peer])
            self._count_batches()

    def _excuse(self, peer: Address) -> None:
        """Batches wait for it no more."""
        for number, (waiting, _) in self.batches.items():
            waiting.discard(peer)
            self.surface.asker.drop("backup", (number, peer))

    # --- copying

    def _copy_to(self, peer: Address) -> None:
        surface = self.surface
        self.serial += 1
        parts = in_parts(surface.tenant.pack(surface.plot.tract), self.timers.part_bytes)
        self._copying = Copying(surface.next_number(), parts, peer, self.serial)
        self._send_copy(self._copying)

    def _send_copy(self, copying: Copying) -> None:
        surface = self.surface
        copy = CopyEstate(
            copying.number,
            copying.at,
            len(copying.parts),
            copying.serial,
            self.host.now_us,
            surface.greetings.mark,
            tuple(surface.plot.pieces),
            self.told,
            surface.greetings.around(),
            copying.parts[copying.at],
        )
        surface.asker.ask("copy", copying.number, copying.to, copy)

    def _uncopied(self, key: Any, question: Question) -> None:
        self.surface.circle.suspect(question.to)
        self._end_copying()

    def _end_copying(self) -> None:
        copying, self._copying = self._copying, None
        if copying is not None:
            self.surface.asker.drop("copy", copying.number)
            self._excuse(copying.to)
            self._count_batches()

    @handles(Copied)
    def on_copied(self, sender: Address, copied: Copied) -> None:
        self.surface.circle.heard(sender)
        copying = self._copying
        said = (sender, copied.number, copied.part)
        if copying is None or said != (copying.to, copying.number, copying.at):
            return
        self.surface.asker.answered("copy", copied.number)
        if copying.next_part():
            self._send_copy(copying)
        else:
            self.become_heir(sender, copied.stamp_us)

    def become_heir(self, peer: Address, stamp_us: int) -> None:
        """The copy is whole. Heirs that are not fit go, as far as they are replaced."""
        self._copying = None
        staying = sorted(self.heirs, key=lambda each: not self._is_fit(each))[
            : self.timers.heirs - 1
        ]
        gone = [each for each in self.heirs if each not in staying]
        self.heirs = (*staying, peer)
        for each in gone:
            self._excuse(each)
        self.surface.circle.concern(peer).echo(stamp_us)
        self._echoed(stamp_us)
        self.surface.announce(gone)
        self._count_batches()

    # --- batches

    def batch(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Back items up at all heirs; `then` is called when that counts. False: too many are waiting already."""
        surface, timers = self.surface, self.timers
        if (
            len(self.batches) >= timers.batches_max
            or len(surface.asker) + timers.heirs >= timers.asks_max
        ):
            return False
        self.serial += 1
        number = surface.next_number()
        self.batches[number] = set(self.told), then
        pieces = tuple(surface.plot.pieces)
        backup = Backup(
            number, self.serial, self.host.now_us, surface.greetings.mark, pieces, items
        )
        for peer in self.told:
            surface.asker.ask("backup", (number, peer), peer, backup)
        self._count_batches()
        return True

    def _unbacked(self, key: Any, question: Question) -> None:
        self.surface.circle.suspect(question.to)
        self.drop_heir(question.to)

    @handles(BackedUp)
    def on_backed_up(self, sender: Address, backed: BackedUp) -> None:
        self.surface.circle.heard(sender)
        batch = self.batches.get(backed.number)
        self.surface.asker.answered("backup", (backed.number, sender))
        self.echo_came(sender, backed.stamp_us, True)
        if batch is not None:
            batch[0].discard(sender)
            self._count(backed.number)

    @handles(NoEstate)
    def on_no_estate(self, sender: Address, none: NoEstate) -> None:
        self.surface.circle.heard(sender)
        self.drop_heir(
            sender
        )  # if a backup overtook the copy it adds to, the copy begins anew, with it in it

    def _count_batches(self) -> None:
        for number in list(self.batches):
            self._count(number)

    def _count(self, number: int) -> None:
        """Does this batch count by now?"""
        batch, alone = self.batches.get(number), not self.surface.plot.others
        if batch is not None and not batch[0] and (self.heirs or alone) and not self.is_doubtful:
            del self.batches[number]
            batch[1]()
