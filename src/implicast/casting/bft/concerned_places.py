"""Which places of a member take part in a multicast."""

from implicast.casting.bft.messages import Source
from implicast.casting.bft.multicast import KeyRange, is_auxiliary
from implicast.casting.bft.validator import HopValidator
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.peer.memory import Recent

CANDIDATES_MAX = 256
"""Ranges whose candidate places are cached while no place has changed."""


class ConcernedPlaces:
    """Own places within the range of a multicast, and auxiliary ones beside it."""

    __slots__ = ("_candidates", "_places", "_validator")

    def __init__(self, places: Places, validator: HopValidator) -> None:
        self._places, self._validator = places, validator
        # candidates by range, start level and number of own places; True for those in range
        self._candidates: Recent[tuple[KeyRange, int, int], list[tuple[Place, bool]]] = Recent(
            CANDIDATES_MAX
        )

    def keys(self, source: Source) -> list[bytes]:
        """Keys of own places that must get a multicast, each at the level given by its vector and
        the source's. A place in range whose lists do not reach that level yet waits for another
        copy.
        """
        places = self._places
        if not {3, 5} <= self._validator.checks:
            return list(places.held)
        # Cached while no place has changed: casts to the same range are frequent. A place may have
        # been left, which changes the number of places.
        which = (source.key_range, source.start, len(places.held))
        near = (
            self._candidates.get(which) if places.are_untouched else self._candidate_places(source)
        )
        if near is None:
            near = self._candidates[which] = self._candidate_places(source)
        return [
            place.key for place, is_in in near if is_in or self._is_auxiliary_place(place, source)
        ]

    def _candidate_places(self, source: Source) -> list[tuple[Place, bool]]:
        """Own places in range, and those that may be auxiliary: a place that is not auxiliary at
        the start level is not at any level below.
        """
        found, key_range, start, halves = (
            list[tuple[Place, bool]](),
            source.key_range,
            source.start,
            self._validator.halves,
        )
        (low, high), is_turned = key_range, source.low >= source.high
        for key, place in self._places.held.items():
            if (key >= low or key < high or low == high) if is_turned else low <= key < high:
                found.append((place, True))
            elif place.assembled is None or is_auxiliary(
                table := place.table, min(start, table.top), key_range, halves
            ):
                # A changed place is always a candidate: its vector is tested first, which is
                # cheaper than computing its lists.
                found.append((place, False))
        return found

    def _is_auxiliary_place(self, place: Place, source: Source) -> bool:
        """Whether an own place outside the range is auxiliary at its level."""
        vectors, theirs, mine = (
            self._validator.vectors,
            source.certificate.vector,
            place.certificate.vector,
        )
        # true for half of them; no node is auxiliary at level 0
        if theirs ^ mine >= vectors.limits[1]:
            return False
        level = min(vectors.common(theirs, mine), source.start)
        if not level or (level > place.table.top and 4 in self._validator.checks):
            return False
        return is_auxiliary(place.table, level, source.key_range, self._validator.halves)
