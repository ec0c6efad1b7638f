"""Own casts whose lists may lack entries, and their receipts."""

from collections.abc import Callable, Sequence, Set

from implicast.casting.coverage import SILENT_MAX, CastTally
from implicast.casting.replicated_lists.fetches import Fetch
from implicast.casting.replicated_lists.messages import Found
from implicast.peer.contract import CastId, Contact, Name
from implicast.peer.events import Settled

Select = Callable[[Fetch, Sequence[Sequence[Found]]], dict[Name, Contact]]
"""The members that the target of a fetch selects in these lists."""
Unclear = Callable[[Fetch], Set[Name]]
"""The members whose entries in the lists of a fetch are of several descriptions. The target may
select none of these.
"""


class DoubtfulCasts(dict[CastId, Fetch]):
    """By own cast under way, its fetch, if holders removed entries of silent owners or may lack
    entries, or if entries of one member are of several descriptions.
    """

    __slots__ = ("_unclear",)

    def __init__(self, unclear: Unclear) -> None:
        super().__init__()
        self._unclear = unclear

    def note(self, cast: CastId, fetch: Fetch) -> None:
        if fetch.uncertain or any(fetch.silent) or self._unclear(fetch):
            self[cast] = fetch

    def is_silent(self, cast: CastId, name: Name, select: Select) -> bool:
        """Whether the cast selects a member whose entries were removed because it was silent."""
        fetch = self.get(cast)
        return fetch is not None and name in _silent_members(fetch, select)

    def settled(
        self, cast: CastId, counts: CastTally, select: Select, own: Name, are_uncertain: bool
    ) -> Settled:
        """Return the receipt of a cast. Selected members whose entries were removed because they
        are silent count as unreachable. A member that did not answer counts as an uncertain region
        if it is unclear whether it is selected. `are_uncertain`: there may be another ring.
        """
        fetch, silent, uncertain = self.pop(cast, None), counts.silent, 0
        unclear: Set[Name] = frozenset()
        if fetch is not None:
            removed = sorted(_silent_members(fetch, select) - {own})
            silent, uncertain = [*silent, *removed], fetch.uncertain
            unclear = self._unclear(fetch) & set(silent)
        return Settled(
            cast,
            counts.notified,
            counts.unreachable + len(silent) - len(counts.silent) - len(unclear),
            counts.declined,
            counts.open,
            tuple(name for name in silent if name not in unclear)[:SILENT_MAX],
            max(uncertain, int(are_uncertain or bool(unclear))),
        )


def _silent_members(fetch: Fetch, select: Select) -> set[Name]:
    if not any(fetch.silent):
        return set()
    every = [[*found, *gone] for found, gone in zip(fetch.lists, fetch.silent, strict=True)]
    return set(select(fetch, every)) - set(select(fetch, fetch.lists))
