"""A member that stands on Chord and keeps lists for others: what the designs on a hashed ring have in common.

A design says what it lays when it is described, which lists a cast needs, and whom they select; everything that makes
that survive is in the rooms beside.
"""

from abc import abstractmethod
from dataclasses import replace
from math import log2
from typing import Any

from msgspec.structs import replace as replace_fields

from implicast.casting.keeping.copies import Comparisons
from implicast.casting.keeping.deeds import Deeds
from implicast.casting.keeping.doubts import Doubts
from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.layings import Layings
from implicast.casting.keeping.messages import Slot
from implicast.casting.keeping.pieces import KeptPiece, Piece, Range
from implicast.casting.keeping.questions import Fetch, Questions
from implicast.casting.keeping.rumours import Rumours
from implicast.casting.keeping.share import KeepingSettings, Share
from implicast.casting.keeping.tenure import Tenure
from implicast.casting.telling import Hearing, Notify, Teller, Told
from implicast.language.target import Description, Scalar, Target
from implicast.overlay.chord import Chord
from implicast.overlay.links import Links, LinkSettings, Ref
from implicast.peer.asking import Asker, UpkeepAsker
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, handles
from implicast.peer.events import Estimated, Joined, Refused, Registered, Settled, Withdrawn
from implicast.peer.lease import UNENDING_US
from implicast.peer.liveness import Detector
from implicast.peer.member import KeptMember, Member
from implicast.peer.name import version_of
from implicast.peer.site import Site
from implicast.space.ring import ID_BITS, hashed

CHECK_US = 7_000_000
"""How often the left neighbour is looked at, unless `check_ms` says otherwise."""
REFRESH_US = 60_000_000
"""How often a finger is looked up afresh, unless `refresh_ms` says otherwise."""
MERGE_US = 30_000_000
"""How often one looks at the own place from outside: all do, so a partition's end is noticed by somebody at once."""
FORGET_US = 40_000_000
"""How long a suspicion lasts: longer than a repair that is refused a few times, lest the dead are asked again."""
OWN_CASTS_US, OWN_CASTS_LOOK_US = 20_000_000, 250_000
"""So long a leaver waits for its own casts to arrive, and so often it looks: off the ring it could ask no more."""


class LeaveLate(Message):
    """Rings while a leaver's own casts are under way."""


class KeptRing(Message):
    """What outlives a crash: also what the member has in lists, so that it can take it out again, and who was near."""

    member: KeptMember
    laid: tuple[KeptPiece, ...] = ()
    neighbours: tuple[Ref, ...] = ()

    @property
    def incarnation(self) -> Incarnation:
        return self.member.incarnation


class RingMember(
    Member,
    parts={
        "links": Links,
        "detector": Detector,
        "chord": Chord,
        "copies": Comparisons,
        "rumours": Rumours,
        "tenure": Tenure,
        "doubts": Doubts,
        "keeper": Keeper,
        "layings": Layings,
        "questions": Questions,
        "asker": Asker,
        "upkeep_asker": UpkeepAsker,
        "teller": Teller,
        "hearing": Hearing,
    },
):
    """Ring, fingers, lists with copies; joining and leaving."""

    __slots__ = (
        "_leave_by_us",
        "_owed",
        "_owed_version",
        "_said",
        "_site",
        "_token",
        "asker",
        "chord",
        "copies",
        "detector",
        "doubts",
        "hearing",
        "keeper",
        "layings",
        "links",
        "questions",
        "rumours",
        "share",
        "teller",
        "tenure",
        "upkeep_asker",
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.hearing = Hearing(self, site.kept.member.heard if site.kept is not None else ())
        self._leave_by_us = self._token = 0
        self._owed: list[Piece] = []
        self._owed_version = 0
        """What an earlier life did not finish to take out of lists, and under which version."""
        self._said: Description | None = None
        """What the lists say of this peer, or will."""
        self._site: Site | None = site
        if site.assured or not site.resting:
            self.make_parts()
        if site.kept is not None:
            self._said = self.description
            self._owed = self.layings.restore(site.kept.laid)
            self._owed_version = site.kept.member.version

    def __getattr__(self, name: str) -> Any:
        """A part that was not needed until now: where nothing changes most members never do anything but hear."""
        if name not in _MADE_LATER or self._site is None:
            raise AttributeError(name)
        self.make_parts()
        return getattr(self, name)

    def make_parts(self) -> None:
        site, self._site = self._site, None
        assert site is not None, "parts are made once"
        address, host = self.address, self.host
        keeping = _keeping_settings(site)
        refresh_us = int(site.parameters["refresh_ms"]) * 1000 or (
            REFRESH_US if site.watched else 0
        )
        key, near = (
            hashed("peer", site.network, site.name),
            site.kept.neighbours if site.kept is not None else (),
        )
        self.links = Links(address, host, key, _ring_settings(site), neighbours=near)
        self.detector = self.links.detector
        self.chord = Chord(address, host, self.links, ID_BITS, refresh_us)
        self.asker, self.upkeep_asker = Asker(address, host), UpkeepAsker(address, host)
        deeds = Deeds(self.words, self.described, self.is_number_of)
        # What parts say to parts made after them is looked up when it is said.
        share = Share(self.contact, host, self.chord, self.key_of, keeping, deeds)
        self.share, self.copies = share, Comparisons(share, lambda: self.layings.renew_all())
        self.rumours = Rumours(share, lambda *lost: self.layings.heed(*lost), self._mourn)
        self.tenure = Tenure(share, self.copies, self.rumours, self.came)
        self.doubts = Doubts(share, self.upkeep_asker, lambda: self.layings.lay_all_again())
        self.keeper = Keeper(share, self.doubts, self.receive)
        self.layings = Layings(
            share, self.keeper, self.upkeep_asker, self.incarnation, self.laid, self._outlived
        )
        self.questions = Questions(share, self.keeper, self._found)
        self.teller = Teller(address, host, self.asker, self.assured, self._settled, self.words)

    def _mourn(self, where: Address) -> None:
        self.layings.mourn(where)
        self.doubts.doubt(where)

    def came(self) -> None:
        """This peer has become a member of the ring."""
        self.host.deliver(Joined())
        self.keeper.serve_those_who_wait()
        owed, self._owed = self._owed, []
        if owed:
            self.layings.lay(("owed", self._owed_version, 0), owed)

    # What a design says

    @abstractmethod
    def key_of(self, attribute: str, value: Scalar) -> int:
        """Where the list of a value belongs; `RemoteError` where it cannot belong anywhere."""

    @abstractmethod
    def entries(self, description: Description) -> list[Piece]:
        """What is laid for a description."""

    @abstractmethod
    def question(self, target: Target, payload: bytes) -> Fetch | str:
        """Which lists a cast needs; or why it is refused."""

    @abstractmethod
    def sizes(self, target: Target) -> list[list[list[Range]]]:
        """For each term, for each of its constraints, the lists in which all are that satisfy it; or some of that."""

    @abstractmethod
    def found(self, cast: CastId, question: Fetch) -> None:
        """All lists have come."""

    @abstractmethod
    def described(self, slot: Slot, packed: bytes) -> Description | None:
        """What an entry says of its owner, where that may need the authority's word."""

    def is_number_of(
        self, owner: Name, number: int
    ) -> bool:  # can an entry of this owner have this number?
        return not number

    # Verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.links.join(introducers)

    def leave(self) -> None:
        """First nobody's audience any more; then see the own casts off, then hand over, then go."""
        self.become(None)
        self._leave_by_us = self.host.now_us + OWN_CASTS_US
        laid, self._said = self.all_laid(), None
        self.layings.lay("leave", [self.layings.removal(piece) for piece in laid])

    @handles(LeaveLate)
    def on_leave_late(self, alarm: LeaveLate) -> None:
        is_busy = self.questions.open or self.teller.casts
        if is_busy and self.host.now_us < self._leave_by_us:
            self.host.after(OWN_CASTS_LOOK_US, alarm)
        else:
            self.tenure.leave()

    def register(self, description: Description) -> None:
        self._restate(self.describe(description))

    def withdraw(self) -> None:
        self._restate(self.describe(None))

    def stand_listed(self, description: Description) -> None:
        """Be this, and listed as this by others."""
        self._said = description
        self.describe(description)

    def _restate(self, group: Any) -> None:
        """Lay what is wanted now; take out what was laid before and is not."""
        wanted = [] if self.description is None else self.entries(self.description)
        kept = {(piece.shelf, piece.attribute, piece.low) for piece in wanted}
        former = [piece for piece in self.all_laid() if not piece.number]
        self._said, removals = self.description, []
        for piece in former:
            if (piece.shelf, piece.attribute, piece.low) in kept:
                self.layings.forget(piece)
            else:
                removals.append(self.layings.removal(piece))
        self.layings.lay(group, [*wanted, *removals])

    def all_laid(self) -> list[Piece]:
        """What this peer has in lists. Without leases pieces are not kept: it follows from what was said."""
        if self.share.settings.lease_us:
            return [piece for piece in self.layings.pieces.values() if piece.packed]
        return [] if self._said is None else self.entries(self._said)

    def laid(self, group: Any) -> None:
        """A group of pieces is laid: a farewell, a version of the description, or what an earlier life owed."""
        if group == "leave":
            self.on_leave_late(LeaveLate())
        elif isinstance(group, tuple):
            if self.description is None and not self.version:
                self.host.deliver(Withdrawn(group[1]))
        elif group == self.version:
            done = Registered if self.description is not None else Withdrawn
            self.host.deliver(done(self.version))

    def _outlived(self, incarnation: Incarnation) -> None:
        """Keepers know a later life of this peer than its disk did: say all again, above that."""
        has_spoken = bool(self.version)
        version = self.outlive(version_of(incarnation, 0))
        self.layings.begin(self.incarnation)
        if has_spoken:
            self._restate(version)
        self.layings.lay_all_again()

    def kept(self) -> KeptRing:
        removals = [piece for piece in self.layings.pieces.values() if not piece.packed]
        laid = tuple(piece.kept() for piece in (*self.all_laid(), *removals, *self._owed))
        kept = self.kept_member(self.hearing.inbox.seen.heard())
        return KeptRing(
            replace_fields(kept, version=kept.version or self._owed_version),
            laid,
            self.links.near(),
        )

    # Casting

    def cast_verified(self, target: Target, payload: bytes) -> CastId:
        return self.cast(target, payload, verified=True)

    def cast(self, target: Target, payload: bytes, verified: bool = False) -> CastId:
        cast = self.next_cast()
        question = self.question(target, self.words.seal(cast, target, payload))
        if isinstance(question, str):
            self.host.deliver(Refused("cast", question))
        else:
            self.questions.ask(cast, question, "cast", verified)
        return cast

    def _found(self, cast: CastId, question: Fetch, is_whole: bool) -> None:
        if question.counts:
            self._estimated(question, is_whole)
        elif is_whole:
            self.found(cast, question)
        else:
            self.host.deliver(Settled(cast, 0, unreachable=len(question.missing_ranges())))

    def tell(self, notify: Notify, members: dict[Name, Contact]) -> None:
        """Tell everybody selected, and oneself by a call; unless these are more than may be."""
        if not self.policy.bears(len(members)):
            self.host.deliver(
                Refused("cast", f"it selects {len(members)} members, more than audience_max")
            )
            return
        here = None
        if members.pop(self.name, None) is not None:
            here = self.hearing.inbox.take(notify.cast, notify.target, notify.payload)
        named = (members[name] for name in sorted(members))
        others = [
            each for each in named if each.address != self.address
        ]  # one that was here before is gone
        self.teller.tell(notify, others, here)

    def _settled(self, cast: CastId, counts: Told) -> None:
        told = (counts.notified, counts.unreachable, counts.declined, counts.open)
        self.host.deliver(Settled(cast, *told, tuple(counts.silent)))

    # Estimating

    def estimate(self, target: Target) -> int:
        """From the sizes of lists: of each term, those of its rarest constraint."""
        self._token += 1
        question = self.question(target, b"")
        if isinstance(question, str):
            self.host.deliver(Refused("estimate", question))
        else:
            terms = self.sizes(target)
            about = (self._token, terms, len(question.ranges))
            ranges = [
                each for constraints in terms for constraint in constraints for each in constraint
            ]
            self.questions.ask(
                CastId(self.name, 0, self._token), Fetch(about, ranges, counts=True), "estimate"
            )
        return self._token

    def _estimated(self, question: Fetch, is_whole: bool) -> None:
        token, terms, look_ups = question.about
        if not is_whole:
            self.host.deliver(Refused("estimate", "some lists do not answer"))
            return
        counted = map(sum, question.lists)
        members = sum(
            min(sum(next(counted) for _ in one) for one in constraints) for constraints in terms
        )
        hops = log2(max(2.0, self.chord.nodes_estimate())) / 2 + 2
        messages = int(look_ups * hops) + members * (2 if self.assured else 1)
        self.host.deliver(Estimated(token, members, messages))

    def holdings(self) -> Any:
        neighbours = (
            self.links.left,
            self.links.right,
            self.links.lefts,
            self.chord.table.fingers(),
        )
        return (neighbours, list(self.share.held()))


_MADE_LATER = frozenset({*RingMember.parts, "share"} - {"hearing"})


def _ring_settings(site: Site) -> LinkSettings:
    parameters = site.parameters
    check_us = int(parameters["check_ms"]) * 1000
    if not site.assured:
        return LinkSettings(check_us=check_us)
    living = LinkSettings.living(
        check_us or CHECK_US, int(parameters["tries"]), MERGE_US, site.resting
    )
    return replace(living, forget_us=FORGET_US, health_max=1)


def _keeping_settings(site: Site) -> KeepingSettings:
    parameters = site.parameters
    sync_us, lease_us = (int(float(parameters[name]) * 1e6) for name in ("sync_s", "lease_s"))
    waits_us = (sync_us, lease_us) if site.watched else (0, UNENDING_US)
    given = (int(parameters["copies"]), *waits_us) if site.assured else (0, 0, 0)
    return KeepingSettings(*given, values_max=int(parameters.get("values_max", 1)))
