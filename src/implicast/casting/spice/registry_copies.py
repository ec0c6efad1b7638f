"""Copying the registry of a tag to its replica roots, by a covered traversal from the original root.

The traversal visits every holder of the registry, and each holder pushes its records to the roots
that a level adds (`replica_push.py`). It is covered when all these roots have acknowledged. A copy
that meets a tract which may lack registrations is doubtful, and so are the roots that it fills.
"""

from collections.abc import Sequence

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import CopyRequest
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.overlay.ice.item_store import RouteHeader
from implicast.space.tract import Tract, intersect, scale_within


class RegistryCopies(SpicePart):
    """Copies in progress of the tags whose original root is local."""

    __slots__ = ("_begun_us", "active", "doubtful")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.active: dict[str, TraversalTask] = {}
        self.doubtful: dict[str, None] = {}
        """Tags whose last copy met a tract that may lack registrations."""
        self._begun_us: dict[str, int] = {}
        """By tag: when the last copy to all levels began, unless it failed."""

    def start_copy(self, tag: str, level: int) -> None:
        """Start a traversal that copies the registry to the roots that this level adds."""
        if level == 1:
            self.doubtful.pop(tag, None)
            self.spice.levels.incomplete.pop(tag, None)
            self._begun_us[tag] = self.host.now_us
        root = address_of(tag)
        way, token = RouteHeader((root, root + 1)), self.spice.stores.next_token()
        traversal = CopyRequest(way, tag, root, 0, level, self.address, token)
        task = self.active[tag] = TraversalTask(self.host.now_us, traversal)
        self.spice.traversals.send_up(task, traversal)
        self.spice.traversals.finish_one(task)

    def began_within(self, tag: str, age_us: int) -> bool:
        """Whether a copy to all levels began within this time and has not failed."""
        begun_us = self._begun_us.get(tag)
        return begun_us is not None and 0 <= self.host.now_us - begun_us < age_us

    def lost_above(self, lost: Tract) -> list[str]:
        """Tags of replicas whose records above a closed part here may have been lost with a
        tract.
        """
        found: dict[str, None] = {}
        for (tag, root, notch), registry in self.spice.registries.all():
            if registry.closed and root != address_of(tag) and tag not in found:
                up = self.settings.above(notch) - notch
                above = scale_within(registry.closed, root, notch, self.settings.dimensions, up)
                if intersect(above, lost):
                    found[tag] = None
        return list(found)

    def stop_raise(self, tag: str, level: int) -> None:
        """Give up a copy to a level above this one."""
        task = self.active.get(tag)
        if (
            task is not None
            and isinstance(task.traversal, CopyRequest)
            and task.traversal.level > level
        ):
            self.spice.traversals.give_up(task)

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        traversal = task.traversal
        assert isinstance(traversal, CopyRequest)
        self.spice.pushes.push_records(task, traversal, [each.entry for each in records])

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        traversal, tag = task.traversal, task.traversal.tag
        if not isinstance(traversal, CopyRequest) or self.active.get(tag) is not task:
            return
        del self.active[tag]
        if task.tally.uncertain:
            self.doubtful[tag] = None
        if not is_covered:
            self._begun_us.pop(tag, None)
        self.spice.replicas.on_copy_end(tag, traversal.level, is_covered)
