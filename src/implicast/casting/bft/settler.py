"""How a member comes to its places: errands to the authority, then one join of the graph per certificate.

An errand is a message to the office, repeated until answered. A version of the description is complete when all its
places have arrived. Places that a newer description no longer wants are kept for a while (`GRACE_US`): casts on their
way must find the peer at the old or the new ones. One errand of a version at a time; of several wishes that come
meanwhile the last counts. A member that is settled tells the authority now and then that it is there, renews its
certificates, and looks at its home through strangers drawn by the authority; one that leaves serves until everyone who
may list it knows. One that comes back with its certificates applies for the same places again, and takes them as they
are if the authority does not answer.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from implicast.casting.bft.keys import HOME, realms, said_in
from implicast.casting.bft.lists import RevocationLists
from implicast.casting.bft.messages import Alone, Apply, Denied, Granted, Present, Vacate
from implicast.casting.bft.settings import MemberKeys
from implicast.language.target import Description
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.contract import Address, Incarnation, Part, Version, handles
from implicast.peer.events import Joined, Left, Refused, Registered, Withdrawn
from implicast.peer.identity import Certificate
from implicast.peer.name import version_of
from implicast.peer.words import RIGHTS_MAX, Words

ERRAND, RETURNING = "errand", "returning"
RETRY = Patience(2_000_000, times=1 << 30)
IMPATIENCE = Patience(2_000_000, times=2)
"""A member that comes back takes its places under its old certificates when the authority has not answered this."""
GRACE_US = 5_000_000
PRESENT_US = 60_000_000
"""How often a member tells the authority that it is there, and looks at its place through strangers drawn by it."""
ALONE_US = 2_000_000
"""A newcomer whose introducers were all silent asks for others after this time."""
JOINING, STAYING, CLEARING = 0, 1, 2
"""Errands without a version: taking the home place, or those of the last life, and no others; being there still and
renewing certificates; giving places up, which count on from there. All are below the least version."""


class Settler(Part):
    """Keeps the places of a member in step with its description."""

    __slots__ = (
        "_arriving",
        "_asker",
        "_clearings",
        "_departed",
        "_described",
        "_errands",
        "_given",
        "_graph",
        "_held",
        "_introducers",
        "_joining",
        "_kept",
        "_keys",
        "_lists",
        "_office",
        "_stamp",
        "_superfluous",
        "_wish",
        "_words",
    )

    def __init__(
        self,
        asker: Asker,
        graph: SkipGraph,
        lists: RevocationLists,
        keys: MemberKeys,
        office: Address,
        incarnation: Incarnation,
        words: Words,
        kept: Sequence[Certificate] = (),
    ) -> None:
        super().__init__(asker.address, asker.host)
        self._words = words
        self._asker, self._graph, self._lists, self._keys, self._office = (
            asker,
            graph,
            lists,
            keys,
            office,
        )
        self._kept = {each.realm: each for each in kept}  # the certificates of our last life
        self._held: dict[bytes, bytes] = {}  # realm -> key of our place there
        self._superfluous: dict[bytes, Version] = {}  # realm -> version that no longer wanted it
        self._given: tuple[Address, ...] = ()
        self._introducers: tuple[Address, ...] = ()
        self._departed = self._joining = False
        self._errands: set[Version] = (
            set()
        )  # what the authority has not answered, and what waits for its answer
        self._clearings, self._stamp = CLEARING, version_of(incarnation, 0)
        self._arriving: dict[Version, set[bytes]] = {}  # errand -> keys of places not yet arrived
        self._described: dict[
            Version, bool
        ] = {}  # version -> whether anything was said (else: withdrawn)
        self._wish: tuple[Version, Description | None] | None = None
        asker.topic(ERRAND, RETRY)
        asker.topic(RETURNING, IMPATIENCE, self._unanswered)

    @property
    def moving(self) -> bool:
        """Whether the places are not exactly those of the newest description."""
        return bool(self._superfluous or self._arriving or self._errands)

    def start(self) -> None:
        """Tell the authority from now on that this member is there."""
        self.host.after(int(PRESENT_US * self.host.rng.random()), Present())

    def begin(self, introducers: tuple[Address, ...]) -> None:
        """Take the home place, or all places of the last life."""
        self._given = self._introducers = introducers
        self._departed, self._joining = False, True
        wanted = self._entitled(self._kept) or [HOME]
        self._send(RETURNING if self._kept else ERRAND, JOINING, wanted, [])

    def stand(self, certificate: Certificate) -> None:
        """A place is there already."""
        self._held[certificate.realm] = certificate.key

    def settle(self, version: Version, description: Description | None) -> None:
        """Hold exactly the places of this description; `Registered` or `Withdrawn` follows."""
        self._described[version] = description is not None
        if self._errands:
            self._wish = (version, description)
            return
        wanted = realms(description)
        for realm in self._held:
            if realm not in wanted:
                self._superfluous.setdefault(realm, version)
        for realm in wanted:
            self._superfluous.pop(realm, None)
        if self._superfluous:
            self.host.after(GRACE_US, Vacate(version))
        lacking = [realm for realm in wanted if realm not in self._held]
        if lacking:
            self._send(ERRAND, version, lacking, [])
        else:
            self._await_arrival(version)

    def depart(self) -> None:
        """Give up everything, also what is yet to be granted; places serve until everyone who may list them knows."""
        self._departed, self._wish = True, None
        self._graph.farewells.leave(self._left)

    def _left(self) -> None:
        self._clear(list(self._held))
        self._held.clear()
        self._superfluous.clear()
        self.host.deliver(Left())

    # --- errands

    def _send(
        self, topic: str, errand: Version, wanted: Sequence[bytes], given_up: Sequence[bytes]
    ) -> None:
        held, listed = self._graph.places.held, self._lists.number
        certificates = [*self._kept.values(), *(place.certificate for place in held.values())]
        newest = max(certificates, key=attrgetter("serial"), default=None)
        rights = self._words.rights_to(said_in(wanted))[:RIGHTS_MAX]
        self._stamp += 1
        bare = Apply(
            errand,
            self._stamp,
            self._keys.enrolment,
            tuple(wanted),
            tuple(given_up),
            newest,
            listed,
            b"",
            rights,
        )
        signature = self._keys.signer.sign(bare.body(self.address))
        if errand != STAYING:
            self._errands.add(errand)
        self._asker.ask(
            topic, errand, self._office, msgspec.structs.replace(bare, signature=signature)
        )

    def _entitled(self, realms: Iterable[bytes]) -> list[bytes]:
        """Those that we may still be in: rights end, and one place that is declined must not cost us the others."""
        return [realm for realm in realms if self._words.is_entitled(said_in([realm]))]

    def _clear(self, given_up: Sequence[bytes]) -> None:
        """Give places up."""
        if given_up:
            self._clearings += 1
            self._send(ERRAND, self._clearings, [], given_up)

    def _answered(self, sender: Address, errand: Version) -> Apply | None:
        """What the authority answers."""
        if sender != self._office:
            return None
        self._errands.discard(errand)
        question = self._asker.answered(RETURNING, errand) or self._asker.answered(ERRAND, errand)
        return (
            question.message
            if question is not None and isinstance(question.message, Apply)
            else None
        )

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        """The authority's draw and the application's own contacts introduce a newcomer together."""
        application = self._answered(sender, granted.errand)
        if (
            application is None
            or tuple([each.realm for each in granted.certificates]) != application.wanted
        ):
            return
        if self._departed:
            self._clear(application.wanted if granted.errand != STAYING else ())
            return
        if granted.revocation is not None:
            self._lists.on_revocation(sender, granted.revocation)
        if granted.certificates:
            self._introducers = (
                tuple(dict.fromkeys((*granted.introducers, *self._given))) or self._introducers
            )
            self._move_in(granted.errand, granted.certificates)
        if granted.errand == STAYING:
            self._graph.ask_strangers(granted.introducers)
        self._next_wish()

    @handles(Denied)
    def on_denied(self, sender: Address, denied: Denied) -> None:
        if self._answered(sender, denied.errand) is None:
            return
        if denied.errand == JOINING or denied.errand in self._described:
            self._described.pop(denied.errand, None)
            self.host.deliver(
                Refused("join" if denied.errand == JOINING else "register", denied.reason)
            )
        self._next_wish()

    def _unanswered(self, errand: Version, question: Question) -> None:
        """We are back and the authority is not there: our old certificates will do; we go on asking for new ones."""
        now_us, trust = self.host.now_us, self._graph.places.belief.trust
        sound = [
            each
            for each in self._kept.values()
            if each.address == self.address and not trust.flaw(each, now_us)
        ]
        self._asker.ask(ERRAND, errand, self._office, question.message)
        if any(each.realm == HOME for each in sound):
            self._errands.discard(errand)
            self._move_in(JOINING, sound)
            self._next_wish()

    def _next_wish(self) -> None:
        wish, self._wish = self._wish, None
        if wish is not None:
            self.settle(*wish)

    # --- being there

    def find_introducers(self) -> None:
        """All introducers were silent: ask the authority for others in a while."""
        self.host.after(ALONE_US, Alone())

    @handles(Alone)
    def on_alone(self, alarm: Alone) -> None:
        if not self._departed:
            self._send(ERRAND, JOINING, self._entitled(self._held) or [HOME], [])

    @handles(Present)
    def on_present(self, alarm: Present) -> None:
        self.host.after(PRESENT_US, alarm)
        if not self._departed and HOME in self._held:
            expiring = [realm for realm, key in self._held.items() if self._graph.expires_soon(key)]
            self._send(ERRAND, STAYING, self._entitled(expiring), [])

    # --- moving in and out

    def _move_in(self, errand: Version, certificates: Sequence[Certificate]) -> None:
        """Take the places of these certificates; a place where we have arrived goes on under its newer certificate."""
        self._kept = {}
        for certificate in certificates:
            self._held[certificate.realm] = certificate.key
            if self._graph.has_arrived(certificate.key):
                self._graph.renew(certificate)
            else:
                self._graph.search.take(certificate, self._introducers)
        self._await_arrival(errand)

    def _await_arrival(self, errand: Version) -> None:
        """An errand is complete when we have arrived at all our places."""
        self._arriving[errand] = {
            key for key in self._held.values() if not self._graph.has_arrived(key)
        }
        if not self._arriving[errand]:
            self._complete(errand)

    def arrived(self, key: bytes) -> None:
        """All who must know a place have been told."""
        for errand, arriving in list(self._arriving.items()):
            arriving.discard(key)
            if not arriving:
                self._complete(errand)

    def _complete(self, errand: Version) -> None:
        self._arriving.pop(errand, None)
        if errand == JOINING and self._joining:
            self._joining = False
            self.host.deliver(Joined())
        elif errand in self._described:
            self.host.deliver(
                Registered(errand) if self._described.pop(errand) else Withdrawn(errand)
            )

    @handles(Vacate)
    def on_vacate(self, alarm: Vacate) -> None:
        if self._errands or self._arriving:
            self.host.after(
                GRACE_US, alarm
            )  # the new places are not all there yet: the old ones are still needed
            return
        given_up = [
            realm for realm, version in self._superfluous.items() if version <= alarm.version
        ]
        for realm in given_up:
            self._superfluous.pop(realm, None)
            self._graph.farewells.quit(self._held.pop(realm))
        self._clear(given_up)
