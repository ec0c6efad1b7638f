"""Recovery of registries: offers of items in a lost tract, and repeated registration of what was
lost with all backups.

If a tract's registries are lost with all backups, a traversal of the whole surface asks the
consumers to register again. It is covered when all have. Casts to the tract wait for that, since
they would find no members there. The tract is then doubtful for `UNCERTAIN_US`, and casts to it count
an uncertain region. If an owner on the way knows of members that are silent, these could not be
asked, and the tract is doubtful for `OWED_US`.

A peer that lost a tract tells the present owners even if it has no items there: requests to
register again may have reached it in their place, so they register again.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from implicast.casting.spice.calls import ItemOffer, OwnerCalls
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import DOUBTFUL_KEY, UNRECOVERED_KEY, cut, label_of, places
from implicast.casting.spice.part import SpiceTable, Tools
from implicast.casting.spice.registrations import Registrations
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import CAST_US, UNCERTAIN_US
from implicast.casting.spice.traversal_messages import CoverageReport, ReregisterRequest, Traversal
from implicast.casting.spice.traversal_state import TraversalTask, TraversalUser
from implicast.casting.spice.traversals import Traversals
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.peer.lease import OWED_US
from implicast.peer.wire import UNREADABLE
from implicast.space.tract import EMPTY, WHOLE, Tract, intersect, subtract, unite

OFFER_ITEMS = 64
"""Maximum number of items in one offer."""
RECOVERY_TRIES = 3
"""Attempts to recover a lost tract, each for the lifetime of a cast."""
RECOVERY_POLL_US = 1_000_000
"""Interval at which a peer checks whether its neighbourhood is whole and a recovery can start."""
RECOVERY_WAIT_US = 30_000_000
"""A recovery starts after this time even if the neighbourhood is not whole."""


class RecoveryTask(NamedTuple):
    """A recovery traversal."""

    task: TraversalTask
    tries: int
    """Attempts left after this one."""
    lost_us: int
    """When the last part of the tract was lost."""


class Recovery(SpiceTable, TraversalUser):
    """Keeps what is stored here complete while the own tract changes."""

    __slots__ = (
        "_calls",
        "_containers",
        "_last_lost_us",
        "_lost",
        "_lost_since_us",
        "_on_stray",
        "_recoveries",
        "_registrations",
        "_registries",
        "_replicas",
        "_traversals",
    )

    def __init__(
        self,
        tools: Tools,
        registries: Registries,
        traversals: Traversals,
        containers: Containers,
        calls: OwnerCalls,
        replicas: Replicas,
        registrations: Registrations,
        on_stray: Callable[[], None],
    ) -> None:
        """`on_stray`: called for each item that is dropped."""
        super().__init__(tools)
        self._registries, self._traversals, self._containers = registries, traversals, containers
        self._calls, self._replicas, self._registrations = calls, replicas, registrations
        self._on_stray = on_stray
        self._lost: Tract = EMPTY
        """Lost tract whose recovery waits until the neighbourhood is whole."""
        self._lost_since_us = self._last_lost_us = 0
        self._recoveries: dict[int, RecoveryTask] = {}
        """By token: recovery traversals in progress."""

    # --- offers

    def on_tract_lost(self, tract: Tract) -> None:
        """A better claim took a tract: offer its items to the present owners. Offered items leave
        the registries at once. Otherwise a peer that got the tract back would delete live records
        when the old offer is acknowledged.
        """
        items = tuple(
            cut(each, tract)
            for each in self._registries.pack(tract)
            if each.key not in (UNRECOVERED_KEY, DOUBTFUL_KEY)
        )
        self._registries.drop(tract)
        self._calls.offer(tract, (), CAST_US)
        for start in range(0, len(items), OFFER_ITEMS):
            offered = items[start : start + OFFER_ITEMS]
            self._calls.offer(places(offered), offered)
        self._registrations.on_tract_lost()

    def on_offer(self, part: Tract, offer: ItemOffer) -> None:
        """Merge offered items, back them up, then acknowledge, so that the sender can drop them. An
        offer without items says that its sender claimed the tract of this peer.
        """
        if not offer.items:
            self._registrations.register_all_again()
            self._calls.answer(offer.reply, offer.token, part)
            return
        mine = [each for each in offer.items if intersect(part, (each.low, each.high))]
        for item in mine:
            self.unite(item, part, False)
        names = {each.key for each in mine}
        stored = self._registries.pack(self.surface.tract)
        accepted = tuple(each for each in stored if each.key in names)
        labels = [label_of(each.key) for each in accepted]
        originals = dict.fromkeys(tag for _, tag, root, _, _ in labels if root == address_of(tag))
        self.surface.replicate(accepted, partial(self._on_offer_backed_up, offer, part, originals))

    def _on_offer_backed_up(self, offer: ItemOffer, part: Tract, originals: Iterable[str]) -> None:
        self.settled()
        self._replicas.on_foreign_items(originals)
        self._calls.answer(offer.reply, offer.token, part)

    # --- changes of the own tract

    def unite(self, item: Item, tract: Tract, safe: bool) -> None:
        """Merge an item. An item that cannot be decoded, or whose registry cannot exist, is counted
        and dropped.
        """
        try:
            lost = self._registries.unite(item, tract, safe)
        except UNREADABLE:
            self._on_stray()
        else:
            self.lost(lost)

    def settled(self) -> None:
        """The tract that this peer answers for has changed."""
        self._containers.settled()
        self._replicas.settled()
        self._registrations.settled()

    # --- recovery of lost registries

    def lost(self, tract: Tract) -> None:
        """No copy is left of the registries of this own tract: ask their consumers to register
        again.
        """
        if tract := subtract(tract, self._registries.unrecovered):
            self.surface.replicate((self._registries.set_unrecovered(tract, True),), lambda: None)
            self._last_lost_us = self.host.now_us
            self._lost_since_us = self._lost_since_us if self._lost else self.host.now_us
            self._lost = unite(self._lost, tract)
            self.recover()

    def recover(self) -> None:
        """Recover all lost tracts with one traversal. While owners around this peer are missing, as
        after a power cut, a traversal could not reach every owner, and would wait on its way.
        """
        self._lost = intersect(self._lost, self._registries.unrecovered)
        is_late = self.host.now_us - self._lost_since_us > RECOVERY_WAIT_US
        if self._lost and (self.surface.is_whole or is_late):
            lost, self._lost = self._lost, EMPTY
            self._request_reregistration(lost, RECOVERY_TRIES, self._last_lost_us)
        elif self._lost:
            self.timer_wheel.schedule_once(RECOVERY_POLL_US, self.recover)

    def _request_reregistration(self, lost: Tract, tries: int, lost_us: int) -> None:
        traversal = ReregisterRequest(
            RouteHeader(WHOLE),
            "",
            address_of(""),
            0,
            lost,
            self.address,
            self.next_token(),
            max(0, self.host.now_us - lost_us),
        )
        task = TraversalTask(self.host.now_us, traversal)
        self._recoveries[traversal.number] = RecoveryTask(task, tries - 1, lost_us)
        self.timer_wheel.schedule(CAST_US, partial(self.on_timeout, traversal.number))
        self._traversals.send_up(task, traversal)
        self._traversals.finish_one(task)

    def on_timeout(self, number: int) -> None:
        recovery = self._recoveries.get(number)
        if recovery is not None:
            self._traversals.give_up(recovery.task)

    def enters(self, task: TraversalTask | None, traversal: Traversal) -> bool:
        """Copy and register again what this peer has lost; no registry is visited."""
        assert isinstance(traversal, ReregisterRequest)
        self._replicas.recopy_after_loss(traversal.lost, traversal.age_us)
        self._registrations.register_again(traversal.lost, task)
        if task is not None and self.surface.has_silent(OWED_US):
            task.add_report(CoverageReport(0, uncertain=1))
        return False

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        """The tract is recovered, or a peer could not be reached and the traversal is repeated."""
        traversal = task.traversal
        assert isinstance(traversal, ReregisterRequest)
        recovery = self._recoveries.get(traversal.number)
        if recovery is None or recovery.task is not task:
            return
        del self._recoveries[traversal.number]
        left = intersect(traversal.lost, self._registries.unrecovered)
        if left and not is_covered and recovery.tries:
            self._request_reregistration(left, recovery.tries, recovery.lost_us)
        elif left:
            uncertain_us = OWED_US if task.tally.uncertain or not is_covered else UNCERTAIN_US
            changed = (
                self._registries.set_unrecovered(left, False),
                self._registries.mark_uncertain(left, self.host.now_us + uncertain_us),
            )
            self.surface.replicate(changed, lambda: None)
            self._traversals.retry_waiting()
