"""Finding a registry for a term of a cast.

Thesis section 8.1.3 and Listing 12. A cast is routed to the nearest root of the deepest level. If
no replica is there, it goes to the next lower level, and at last to the original root. It stops at
the first replica that it meets on its route.
"""

from msgspec.structs import replace

from implicast.casting.complaints import ComplaintLog
from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.loads import RootLoads
from implicast.casting.spice.part import SpiceTable, Tools
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.traversal_messages import CastRequest
from implicast.overlay.ice.item_store import RouteHeader
from implicast.space.tract import contains

TAGS_MAX = 64
"""Maximum number of tags of a term that `choose=rarest` compares."""


class RegistryFinder(SpiceTable):
    """Directs casts to the roots of their tags."""

    __slots__ = ("_complaint_log", "_loads", "_registries")

    def __init__(
        self, tools: Tools, registries: Registries, loads: RootLoads, complaint_log: ComplaintLog
    ) -> None:
        super().__init__(tools)
        self._registries, self._loads, self._complaint_log = registries, loads, complaint_log

    def address_to(self, cast: CastRequest, tag: str, level: int) -> CastRequest:
        """The cast, routed to the nearest root of a level."""
        address = address_of(tag)
        root = (
            nearest_root(address, level, self.surface.centre)
            if level and self.surface.tract
            else address
        )
        return replace(cast, way=RouteHeader((root, root + 1)), tag=tag, level=level, root=root)

    def seek(self, cast: CastRequest) -> tuple[CastRequest, bool]:
        """The next destination of a cast that looks for a registry, and whether it has found one
        here.

        A peer learns from passing casts how deep a level to start from.
        """
        levels = self._registries.levels
        if self.settings.live and cast.level > levels.depth:
            levels.learn_depth(cast.level)
        while True:
            root = self._root_here(cast.tag)
            if root is None and not self._is_known(cast.root):
                return cast, False
            if root is None and cast.level:
                level = min(cast.level, self.settings.deepest + 1) - 1
                cast = self.address_to(cast, cast.tag, level)
                continue
            root = cast.root if root is None else root
            # A declined cast does not call for more replicas.
            if self.settings.live and not cast.count_only and not self._is_declined(cast):
                self._loads.count_cast(cast.tag, root)
            other = self._rarer(cast, root) if self.settings.rarest else None
            if other is None:
                return replace(cast, way=RouteHeader((root, root + 1)), root=root), True
            cast = other

    def _is_declined(self, cast: CastRequest) -> bool:
        return self._complaint_log.declines(cast.cast)

    def _root_here(self, tag: str) -> int | None:
        """A local root at which a cast may stop."""
        for root in self._registries.local_roots.get(tag, ()):
            if self._is_known(root) and (
                not self.settings.live or self._registries.levels.is_ready(tag, root)
            ):
                return root
        return None

    def _is_known(self, root: int) -> bool:
        """Whether this peer answers for the root and its registries are complete there."""
        return self.surface.answers(root) and not contains(self._registries.unrecovered, root)

    def _rarer(self, cast: CastRequest, root: int) -> CastRequest | None:
        """A better tag than one with a closed registry: the term's next untried tag, or the one
        with the smallest registry once all are tried.
        """
        registry = self._registries.by_key.get((cast.tag, root, 0))
        tags = cast.target.terms[cast.term].has[:TAGS_MAX]
        seen = dict(cast.tried)
        if registry is None or not registry.closed or len(seen) == len(tags):
            return None
        seen[cast.tag] = len(registry.records) + registry.passed_up
        tag = next((each for each in tags if each not in seen), None) or min(
            tags, key=lambda each: (seen[each], each)
        )
        if tag == cast.tag:
            return None
        return replace(
            self.address_to(cast, tag, self._registries.levels.depth), tried=tuple(seen.items())
        )
