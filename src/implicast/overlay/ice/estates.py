"""The heir's side of inheritance: estates, complete copies of what owners keep, held by those who may act for them.

An owner's words are numbered: whatever order they come in, the later one counts. An estate ends when its owner says so,
and a late repeat of the copy it began with does not bring it back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.estate import Item, check_items
from implicast.overlay.ice.messages import (
    BackedUp,
    Backup,
    Copied,
    CopyEstate,
    Hail,
    Neighbour,
    NoEstate,
    Title,
)
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.errors import RemoteError
from implicast.space.tract import Tract, intersect


@dataclass(slots=True)
class Parcel:
    """Items on their way to another peer, part by part."""

    number: int
    parts: list[tuple[Item, ...]]
    at: int = field(default=0, kw_only=True)

    def next_part(self) -> bool:
        """Is there one more part to be sent? Then it is that one's turn."""
        more = self.at + 1 < len(self.parts)
        self.at += more
        return more


@dataclass(slots=True)
class Legacy:
    """What an owner keeps, in the hands of an heir."""

    number: int
    """Of the copy it began with."""
    titles: tuple[Title, ...]
    heirs: tuple[Address, ...]
    around: tuple[Neighbour, ...]
    stamp_us: int
    """By the owner's clock: its last word on the estate."""
    mark: int = -1
    awaited: set[int] = field(default_factory=set)
    """Parts of the copy that have not come yet."""
    items: dict[bytes, tuple[int, Item]] = field(default_factory=dict)
    """By key; the larger serial is the later word."""
    serial: int = -1
    """The owner's last word."""
    denied_us: int = -1
    """Since when the owner's greetings have had smaller marks than this estate; -1: they have not."""
    settled: int = -1  # the owner's words up to this one have all come, or never will

    def take_backup(self, backup: Backup, items: Iterable[Item]) -> None:
        """The owner has changed something."""
        self.stamp_us = max(
            self.stamp_us, backup.stamp_us
        )  # it may be late: a greeting came before
        if backup.mark >= self.mark:
            self.mark, self.titles = backup.mark, backup.titles
        self.put(backup.serial, items)

    def take_hail(self, hail: Hail, heir: bool) -> None:
        """The owner still names us."""
        self.mark, self.stamp_us, self.denied_us = hail.mark, hail.stamp_us, -1
        self.heirs = hail.heirs if heir else self.heirs
        self.around = hail.around or self.around
        if self.titles != (*hail.pieces, *hail.provisional):
            self.titles = (*hail.pieces, *hail.provisional)
            ground, items = (
                tract_of(self.titles),
                self.items.items(),
            )  # what lies elsewhere it has parted with
            self.items = {
                key: said for key, said in items if intersect((said[1].low, said[1].high), ground)
            }

    def is_denied(self, now_us: int, late_us: int) -> bool:
        """The owner's greeting has a smaller mark. Marks only rise, and no word is late for so long: if it goes on like
        this, what we hold was said by another."""
        self.denied_us = now_us if self.denied_us < 0 else self.denied_us
        return now_us - self.denied_us > late_us

    def put(self, serial: int, items: Iterable[Item]) -> None:
        """The owner's word on these items; what lies elsewhere than its ground is not kept for it."""
        self.serial = max(self.serial, serial)
        spans, known = [(each.low, each.high) for each in self.titles], self.items
        for item in items:
            later = known.get(item.key, (serial,))[0] <= serial
            if later and [low for low, high in spans if item.low < high and low < item.high]:
                known[item.key] = (serial, item)

    def join(self, title: Title, items: Iterable[Item], stamp_us: int) -> None:
        """The owner was given this, and said so then; it has not spoken of the items yet."""
        self.stamp_us = max(self.stamp_us, stamp_us)
        self.titles = (*(each for each in self.titles if each.low != title.low), title)
        for item in items:
            self.items.setdefault(item.key, (-1, item))

    def settle(self) -> None:
        """Forget what the owner keeps no longer, if it had said so by the last time."""
        self.items = {
            key: said for key, said in self.items.items() if said[1].body or said[0] > self.settled
        }
        self.settled = self.serial

    def within(self, tract: Tract) -> tuple[Item, ...]:
        """The items that lie in a tract."""
        return tuple(
            item
            for _, item in self.items.values()
            if item.body and intersect((item.low, item.high), tract)
        )


class Estates(SurfacePart):
    """Holds estates for others."""

    __slots__ = ("_settled_us", "held")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.held: dict[Address, Legacy] = {}
        self._settled_us = self.host.now_us

    @handles(CopyEstate)
    def on_copy(self, sender: Address, copy: CopyEstate) -> None:
        if copy.part >= copy.parts:
            raise RemoteError(f"part {copy.part} of {copy.parts}")
        check_items(copy.items)
        circle = self.surface.circle
        news = circle.concern(sender)
        circle.heard(sender)
        estate = self.held.get(sender)
        if estate is None or estate.number < copy.number:
            full = estate is None and len(self.held) >= self.timers.estates_max
            if full or news.is_over(copy.stamp_us, self.host.now_us, self.timers.self_us):
                return  # a late repeat must not bring back what has ended
            # A backup may overtake the copy that it adds to, and come to an estate of old that the copy then replaces.
            old = estate.items if estate is not None else {}
            newer = {key: said for key, said in old.items() if said[0] > copy.serial}
            awaited = set(range(copy.parts))
            estate = self.held[sender] = Legacy(
                copy.number,
                copy.titles,
                copy.heirs,
                copy.around,
                copy.stamp_us,
                copy.mark,
                awaited,
                newer,
            )
        if estate.number == copy.number:
            estate.awaited.discard(copy.part)
            estate.put(copy.serial, filter(self.surface.tenant.reads, copy.items))
        stamp_us = self.vouched(sender, copy.stamp_us, copy.mark)
        self.host.send(sender, Copied(copy.number, copy.part, stamp_us))

    @handles(Backup)
    def on_backup(self, sender: Address, backup: Backup) -> None:
        self.surface.circle.heard(sender)
        estate = self.held.get(sender)
        if estate is None:
            self.host.send(sender, NoEstate(backup.number))
            return
        check_items(backup.items)
        estate.take_backup(backup, filter(self.surface.tenant.reads, backup.items))
        self.host.send(
            sender, BackedUp(backup.number, self.vouched(sender, backup.stamp_us, backup.mark))
        )

    def holds(self, owner: Address) -> bool:
        """Do we hold a complete copy of an owner's estate?"""
        estate = self.held.get(owner)
        return estate is not None and not estate.awaited

    def vouched(self, owner: Address, stamp_us: int, mark: int) -> int:
        """An owner's stamp, if we may say as its heir that nobody else has its place; else 0.

        Who wakes after its place was taken must not hear from an heir that all is as it was. So an heir does not vouch
        while it knows better titles, nor for a while after it has testified to the silence: the asker may be seizing
        the place, and its word may be on the way.
        """
        if (estate := self.held.get(owner)) is None:
            return stamp_us
        atlas = self.surface.plot.atlas
        better = [
            each
            for title in estate.titles
            for each in atlas.better_than(title)
            if each.owner != owner
        ]
        contradicted = better or estate.mark != mark
        return (
            0
            if contradicted or self.surface.circle.concern(owner).mute_us > self.host.now_us
            else stamp_us
        )

    def hailed(self, owner: Address, hail: Hail) -> None:
        """A greeting of an owner may say that we are heirs no longer."""
        estate = self.held.get(owner)
        named = self.address in hail.heirs or self.address in hail.copying
        if not named:
            self.surface.circle.concern(owner).end(
                hail.stamp_us, self.host.now_us, self.timers.self_us
            )
        if estate is None:
            return
        if hail.mark < estate.mark:
            if estate.is_denied(self.host.now_us, self.timers.self_us):
                del self.held[owner]
        elif (
            named and hail.stamp_us >= estate.stamp_us
        ):  # else it knows nothing of what the owner was given since
            estate.take_hail(hail, self.address in hail.heirs)
        elif not named and hail.stamp_us > estate.stamp_us:
            del self.held[owner]

    def inherit_from(self, owner: Surface) -> None:
        """Hold a complete copy of what an owner keeps, from the beginning."""
        estate = Legacy(-1, tuple(owner.pieces), owner.heirs, owner.greetings.around(), -1)
        estate.put(0, owner.tenant.pack(owner.tract))
        self.held[owner.address] = estate

    def forget(self) -> None:
        """Owners long silent whose ground others must have taken by now; and what an owner keeps no longer, if it said
        so long ago. Not at once, for an older word that comes late would bring it back."""
        silence_us = self.surface.circle.silence_us
        for owner in [each for each in self.held if silence_us(each) > self.timers.estate_us]:
            del self.held[owner]
        if self.host.now_us - self._settled_us > self.timers.dead_us:
            self._settled_us = self.host.now_us
            for each in self.held.values():
                each.settle()


def in_parts(items: tuple[Item, ...], bytes_max: int) -> list[tuple[Item, ...]]:
    """Items divided so that each part is no longer than a message may be; at least one part."""
    parts: list[tuple[Item, ...]] = []
    part: list[Item] = []
    length = 0
    for item in items:
        weight = 32 + len(item.key) + len(item.body)
        if part and length + weight > bytes_max:
            parts.append(tuple(part))
            part, length = [], 0
        part.append(item)
        length += weight
    return [*parts, tuple(part)]
