"""Casting: find a registry of one tag of each term, walk through all of it, notify whom the target selects.

Thesis section 8.1.3 and Listing 12; with no limits it is Listing 5. A cast first looks at the nearest place where a
replica of the deepest level could be, then at the next lower level, and at last at the original; it stops at the first
copy it meets. A peer with an open share of the registry answers from it; a closed one passes the cast to the scaled
tract. Every record has exactly one home, and the parts of a walk never overlap, so nobody is notified twice.
"""

from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.messages import Cast, Notify, Seek
from implicast.casting.spice.replicating import Replicating
from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.events import Refused
from implicast.space.tract import Tract, intersect, scale_within


class Casting(Replicating):
    """The verb `cast`, and a peer's part in the casts of others."""

    __slots__ = ()

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        for term, conjunction in enumerate(target.terms):
            if conjunction.has:
                self._begin(Seek(cast, target, term, conjunction.has[0], 0, 0, payload))
            else:
                self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
        return cast

    # --- looking for a registry

    def _begin(self, seek: Seek) -> None:
        """Look for a registry of the tag, from the deepest level down."""
        self._look(seek, self.settings.deepest)

    def _look(self, seek: Seek, level: int) -> None:
        address = address_of(seek.tag)
        root = nearest_root(address, level, tuple(self.surface.table.centre.tolist())) if level else address
        self.on_seek(
            self.address,
            Seek(seek.cast, seek.target, seek.term, seek.tag, level, root, seek.payload, seek.tried),
        )

    @handles(Seek)
    def on_seek(self, sender: Address, seek: Seek) -> None:
        root = self.copy_here(seek.tag)
        if root is not None:
            self._found(seek, root)
        elif self.surface.carry(seek.root, seek) and seek.level:
            self._look(seek, seek.level - 1)
        # At level 0 nobody has registered this tag: the group is empty.

    def _found(self, seek: Seek, root: int) -> None:
        self.count_cast(seek.tag, root)
        other = self._rarer(seek, root) if self.settings.rarest else None
        if other is not None:
            self._begin(other)
        else:
            start = (root, root + 1)
            self.on_cast(
                self.address,
                Cast(seek.cast, seek.target, seek.term, seek.tag, root, 0, start, seek.payload),
            )

    def _rarer(self, seek: Seek, root: int) -> Seek | None:
        """Where to look rather than in this large registry: the term's next tag, or the rarest when all were seen."""
        registry = self.registries[seek.tag, root, 0]
        tags = seek.target.terms[seek.term].has
        seen = dict(seek.tried)
        if not registry.closed or len(seen) == len(tags):
            return None
        seen[seek.tag] = registry.size
        tag = next((each for each in tags if each not in seen), None) or min(tags, key=lambda each: (seen[each], each))
        if tag == seek.tag:
            return None
        return Seek(seek.cast, seek.target, seek.term, tag, 0, 0, seek.payload, tuple(seen.items()))

    # --- walking through it

    @handles(Cast)
    def on_cast(self, sender: Address, cast: Cast) -> None:
        self.surface.route(
            cast.tract,
            deliver=lambda part: self._answer_cast(cast, part),
            branch=lambda part: self._at(cast, cast.notch, part),
        )

    def _at(self, cast: Cast, notch: int, tract: Tract) -> Cast:
        return Cast(cast.cast, cast.target, cast.term, cast.tag, cast.root, notch, tract, cast.payload)

    def _answer_cast(self, cast: Cast, part: Tract) -> None:
        key = (cast.tag, cast.root, cast.notch)
        registry, sealed = self.registries.get(key), self.sealed.get(key[:2], -1)
        if registry is not None:
            self._notify(cast, registry.selected(cast.target, cast.term, part, self.host.now_us))
        if cast.notch <= sealed:
            self._pass_up(cast, part, sealed + 1 - cast.notch)
        elif registry is not None and registry.closed:
            self._pass_up(cast, intersect(part, registry.closed), 1)

    def _pass_up(self, cast: Cast, closed: Tract, notches: int) -> None:
        if closed:
            above = scale_within(closed, cast.root, cast.notch, self.settings.dimensions, notches)
            self.on_cast(self.address, self._at(cast, cast.notch + notches, above))

    def _notify(self, cast: Cast, consumers: list[Address]) -> None:
        notify = Notify(cast.cast, cast.target, cast.payload)
        for consumer in consumers:
            if consumer == self.address:
                self.on_notify(self.address, notify)
            else:
                self.host.send(consumer, notify)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.inbox.take(notify.cast, notify.target, notify.payload)
