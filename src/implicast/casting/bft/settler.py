"""How a member comes to its places: errands to the authority, then one join of the graph per certificate.

An errand is a message to the office, repeated until answered. A version of the description is complete when all its
places have arrived. Places that a newer description no longer wants are kept for a while (`GRACE_US`): casts on their
way must find the peer at the old or the new ones. One errand at a time; of several wishes that come meanwhile the last
counts. A member that is settled tells the authority now and then that it is there, renews its certificates, and looks
at its home through strangers drawn by the authority; one that leaves serves until everyone who may list it knows.
"""

from implicast.casting.bft.keys import HOME, realms
from implicast.casting.bft.messages import Again, Apply, Denied, Granted, Present
from implicast.language.target import Description
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.events import Joined, Left, Refused, Registered, Withdrawn
from implicast.peer.identity import Certificate
from implicast.peer.pending import Pending
from implicast.peer.signatures import Signer

RETRY_US = 2_000_000
GRACE_US = 5_000_000
PRESENT_US = 60_000_000
"""How often a member tells the authority that it is there, and looks at its place through strangers drawn by it."""
ALONE_US = 2_000_000
"""A newcomer whose introducers were all silent asks for others after this time."""
JOINING, CLEARING, PRESENT, RENEWING = 0, -1, -2, -3
"""Errands without a version: taking the home place; giving places up; being there still; renewing certificates."""


class Vacate(Message):
    """Rings when places given up with this version have been kept long enough."""

    version: int


class Settler(Part):
    """Keeps the places of a member in step with its description."""

    __slots__ = (
        "_arriving", "_departed", "_described", "_given", "_graph", "_held", "_introducers", "_office", "_signer",
        "_superfluous", "_unanswered", "_wish",
    )  # fmt: skip

    def __init__(self, address: Address, host: Host, graph: SkipGraph, signer: Signer, office: Address) -> None:
        super().__init__(address, host)
        self._graph, self._signer, self._office = graph, signer, office
        self._held: dict[bytes, bytes] = {}  # realm -> key of our place there
        self._superfluous: dict[bytes, int] = {}  # realm -> version that no longer wanted it
        self._given: tuple[Address, ...] = ()
        self._introducers: tuple[Address, ...] = ()
        self._departed = False
        self._unanswered: Pending[int, Apply] = Pending(host, Again(), RETRY_US)
        self._arriving: dict[int, set[bytes]] = {}  # errand -> keys of places not yet arrived
        self._described: dict[int, bool] = {}  # version -> whether anything was said (else: withdrawn)
        self._wish: tuple[int, Description | None] | None = None

    @property
    def moving(self) -> bool:
        """Whether the places are not exactly those of the newest description."""
        return bool(self._superfluous or self._arriving or self._unanswered)

    def start(self) -> None:
        """Tell the authority from now on that this member is there."""
        self.host.after(int(PRESENT_US * self.host.rng.random()), Present(PRESENT))

    def begin(self, introducers: tuple[Address, ...]) -> None:
        """Take the home place."""
        self._given = self._introducers = introducers
        self._departed = False
        self._apply(JOINING, [HOME], [])

    def stand(self, realm: bytes, certificate: Certificate) -> None:
        """A place is there already."""
        self._held[realm] = certificate.key

    def settle(self, version: int, description: Description | None) -> None:
        """Hold exactly the places of this description; `Registered` or `Withdrawn` follows."""
        self._described[version] = description is not None
        if self._unanswered:
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
        self._apply(version, [realm for realm in wanted if realm not in self._held], [])

    def depart(self) -> None:
        """Give up everything, also what is yet to be granted; the places serve until everyone who may list them knows.
        """
        self._departed, self._wish = True, None
        self._graph.leave(self._left)

    def _left(self) -> None:
        given_up = list(self._held)
        self._held.clear()
        self._superfluous.clear()
        if given_up:
            self._send_application(CLEARING, [], given_up)
        self.host.deliver(Left())

    # --- errands

    def _apply(self, errand: int, wanted: list[bytes], given_up: list[bytes]) -> None:
        if wanted or given_up:
            self._send_application(errand, wanted, given_up)
        else:
            self._move_in(errand, {})

    def _send_application(self, errand: int, wanted: list[bytes], given_up: list[bytes]) -> None:
        bare = Apply(errand, self._signer.public, tuple(wanted), tuple(given_up), b"")
        signature = self._signer.sign(bare.body(self.address))
        application = Apply(errand, bare.public, bare.wanted, bare.given_up, signature)
        self._unanswered.ask(errand, application)
        self.host.send(self._office, application)

    @handles(Granted)
    def on_granted(self, sender: Address, granted: Granted) -> None:
        """The authority's draw and the application's own contacts introduce a newcomer together."""
        application = self._unanswered.get(granted.errand)
        if sender != self._office or application is None or len(granted.certificates) != len(application.wanted):
            return
        self._unanswered.answer(granted.errand)
        if self._departed:
            if granted.errand not in (PRESENT, RENEWING):
                self._apply(CLEARING, [], list(application.wanted))
            return
        if granted.revocation is not None:
            self._graph.learn(granted.revocation)
        if granted.errand in (PRESENT, RENEWING):
            self._stay(granted)
        else:
            self._introducers = tuple(dict.fromkeys((*granted.introducers, *self._given))) or self._introducers
            self._move_in(granted.errand, dict(zip(application.wanted, granted.certificates, strict=True)))
        self._next_wish()

    @handles(Denied)
    def on_denied(self, sender: Address, denied: Denied) -> None:
        if sender == self._office and self._unanswered.answer(denied.errand) is not None:
            self.host.deliver(Refused("join" if denied.errand == JOINING else "register", denied.reason))
            self._next_wish()

    @handles(Again)
    def on_again(self, alarm: Again) -> None:
        for errand, application in self._unanswered.due():
            self._unanswered.ask(errand, application)
            self.host.send(self._office, application)

    def _next_wish(self) -> None:
        wish, self._wish = self._wish, None
        if wish is not None:
            self.settle(*wish)

    # --- being there

    def find_introducers(self) -> None:
        """All introducers were silent: ask the authority for others in a while."""
        self.host.after(ALONE_US, Present(JOINING))

    @handles(Present)
    def on_present(self, alarm: Present) -> None:
        if alarm.errand == JOINING:
            if not self._departed:
                self._send_application(JOINING, [HOME], [])
            return
        self.host.after(PRESENT_US, alarm)
        if self._departed or HOME not in self._held:
            return
        expiring = [realm for realm, key in self._held.items() if self._graph.expires_soon(key)]
        self._send_application(RENEWING if expiring else PRESENT, expiring, [])

    def _stay(self, granted: Granted) -> None:
        for certificate in granted.certificates:
            self._graph.renew(certificate)
        self._graph.ask_strangers(granted.introducers)

    # --- moving in and out

    def _move_in(self, errand: int, certificates: dict[bytes, Certificate]) -> None:
        keys = [certificate.key for certificate in certificates.values()]
        self._arriving[errand] = set(keys)
        for realm, certificate in certificates.items():
            self._held[realm] = certificate.key
            self._graph.take(certificate, self._introducers, lambda key=certificate.key: self._arrived(errand, key))  # type: ignore[misc]
        if not keys:
            self._complete(errand)

    def _arrived(self, errand: int, key: bytes) -> None:
        arriving = self._arriving.get(errand)
        if arriving is not None:
            arriving.discard(key)
            if not arriving:
                self._complete(errand)

    def _complete(self, errand: int) -> None:
        self._arriving.pop(errand, None)
        if errand == JOINING:
            self.host.deliver(Joined())
        elif errand in self._described:
            self.host.deliver(Registered(errand) if self._described.pop(errand) else Withdrawn(errand))

    @handles(Vacate)
    def on_vacate(self, alarm: Vacate) -> None:
        if self._unanswered or self._arriving:
            self.host.after(GRACE_US, alarm)  # the new places are not all there yet: the old ones are still needed
            return
        given_up = [realm for realm, version in self._superfluous.items() if version <= alarm.version]
        for realm in given_up:
            self._superfluous.pop(realm, None)
            self._graph.quit(self._held.pop(realm))
        if given_up:
            self._apply(CLEARING, [], given_up)
