"""Publish/subscribe through one server, as the yardstick: the server keeps every subscription, matches every event and
sends one copy to each subscriber that matches.

Two shares of peers, one for members and one for the server, so that `centralised` only has to name them. A subscription
has a number, and each wording of it a version; both belong to a life of the member, so that what it said last counts,
also after it began again.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from implicast.casting.inbox import Inbox
from implicast.casting.telling import Got, Word
from implicast.language.standing import StandingTargets
from implicast.language.target import Description, Target
from implicast.peer.asking import Asker, Patience
from implicast.peer.changes import Changed
from implicast.peer.contract import Address, CastId, Contact, Life, Message, Name, Part, handles
from implicast.peer.fields import Count, Payload
from implicast.peer.member import Member
from implicast.peer.name import version_of
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscribed, Unsubscribed
from implicast.peer.words import Said, personal

SUBSCRIBE = "subscribe"
PATIENCE = Patience(2_000_000, times=1 << 30)
SUBSCRIPTIONS_MAX = 1_024
"""Subscriptions of one member; further ones are not answered."""
SUBSCRIBERS_MAX = 1 << 20
"""Members that subscribe at one server; while there are so many, no further subscription is answered."""


@personal("name")
class Subscribe(Message):
    """A member words a subscription, anew or for the first time; `None`: it wants it no more."""

    wire = 0x0211
    name: Name
    life: Life
    subscription: Count
    version: Count
    target: Target | None


class SubscriptionKept(Message):
    """The server has this wording, or one of a later life."""

    wire = 0x0212
    life: Life
    subscription: Count
    version: Count


class Announce(Message):
    """A member asks the server to tell whoever subscribed to things of this description."""

    wire = 0x0213
    dry: ClassVar[bool] = False

    cast: CastId
    description: Description
    payload: Payload


class Happened(Word):
    """The server tells a subscriber."""

    wire = 0x0214
    description: Description
    payload: Payload


class Worded(Message):
    """A subscription that the server keeps; `None`: taken back, and kept lest an older wording counts."""

    contact: Contact
    life: Life
    subscription: Count
    version: Count
    target: Target | None
    said: Said | None = None
    """As its owner signed it, where words are signed."""


class Wording(Message):
    """A subscription that a member keeps."""

    subscription: Count
    version: Count
    target: Target


SUBSCRIPTION_KINDS: tuple[type[Message], ...] = (Subscribe, SubscriptionKept, Announce, Happened)


class Desk(Part):
    """A member's own subscriptions."""

    __slots__ = ("_asker", "_inbox", "_last", "_member", "_server", "subscriptions")

    def __init__(self, member: Member, server: Address, asker: Asker, inbox: Inbox, kept: Iterable[Wording]) -> None:
        super().__init__(member.address, member.host)
        self._member, self._server, self._asker, self._inbox = member, server, asker, inbox
        self.subscriptions: dict[int, Wording] = {each.subscription: each for each in kept}
        self._last = max(self.subscriptions, default=0)
        asker.topic(SUBSCRIBE, PATIENCE)

    def subscribe(self, target: Target) -> int:
        self._last += 1
        self.subscriptions[self._last] = Wording(self._last, 1, target)
        self._say(self._last, 1, target)
        return self._last

    def reword(self, number: int, target: Target | None) -> None:
        """`None`: the subscription ends."""
        before = self.subscriptions.get(number)
        if before is None:
            return
        if target is None:
            del self.subscriptions[number]
        else:
            self.subscriptions[number] = Wording(number, before.version + 1, target)
        self._say(number, before.version + 1, target)

    def say_again(self) -> None:
        """Tell the server all subscriptions: it does not know them, or only of an earlier life."""
        for each in self.subscriptions.values():
            self._say(each.subscription, each.version, each.target)

    def _say(self, number: int, version: int, target: Target | None) -> None:
        member = self._member
        said = Subscribe(member.name, member.life, number, version, target)
        self._asker.ask(SUBSCRIBE, number, self._server, member.words.say(said), said)

    @handles(SubscriptionKept)
    def on_kept(self, sender: Address, kept: SubscriptionKept) -> None:
        question = self._asker.open(SUBSCRIBE, kept.subscription)
        if question is None or sender != self._server:
            return
        said = question.about
        assert isinstance(said, Subscribe), "nothing else is asked on this topic"
        if kept.life > self._member.life and not self._member.words.signed:
            self.outlive(kept.life)
        elif (kept.life, kept.version) == (said.life, said.version):
            self._asker.answered(SUBSCRIBE, kept.subscription)
            number, gone = said.subscription, said.target is None
            self.host.deliver(Unsubscribed(number) if gone else Subscribed(number, said.version))

    def outlive(self, life: Life) -> None:
        """The server has a wording of this life of the member; the member may have forgotten it."""
        if life > self._member.life:
            self._member.outlive(version_of(life, 0))
            self.say_again()

    @handles(Happened)
    def on_happened(self, sender: Address, happened: Happened) -> None:
        """Only what some subscription asks for now: it may have been reworded meanwhile."""
        fits = any(each.target.selects(happened.description) for each in self.subscriptions.values())
        outcome = self._inbox.admit(happened.cast, happened.description, happened.payload, fits)
        if self._member.assured:
            self.host.send(sender, self._member.words.say(Got(happened.cast, self._member.name, outcome)))


class SubscriptionServer(Part):
    """Everybody's subscriptions, at the server; `heard` is told of every member that says something."""

    __slots__ = ("_heard", "_standing", "_words", "changed", "worded")

    def __init__(self, site: Site, heard: Callable[[Name], None], kept: Iterable[Worded]) -> None:
        super().__init__(site.address, site.host)
        self._heard, self._words = heard, site.words
        self._standing: StandingTargets[tuple[Name, int]] = StandingTargets()
        self.worded: dict[Name, dict[int, Worded]] = {}
        self.changed: Changed[Name] = Changed()
        for each in kept:
            self._keep(each)

    def _keep(self, worded: Worded) -> None:
        name = worded.contact.name
        self._heard(name)
        self.changed.note(name)
        self.worded.setdefault(name, {})[worded.subscription] = worded
        key = (name, worded.subscription)
        if worded.target is None:
            self._standing.remove(key)
        else:
            self._standing.put(key, worded.target)

    @handles(Subscribe)
    def on_subscribe(self, sender: Address, said: Subscribe) -> None:
        if said.target is not None and not all(term.has or term.where for term in said.target.terms):
            return  # it would have to be tried on every event
        if not self._words.vouches(said):
            return
        own = self.worded.get(said.name, {})
        known = own.get(said.subscription)
        if known is None and (len(own) >= SUBSCRIPTIONS_MAX or len(self.worded) >= SUBSCRIBERS_MAX):
            return
        if known is None or (said.life, said.version) >= (known.life, known.version):
            contact = Contact(said.name, sender)
            evidence = self._words.evidence(said)
            known = Worded(contact, said.life, said.subscription, said.version, said.target, evidence)
            self._keep(known)
        elif known.said is not None and known.life > said.life:
            self.host.send(sender, known.said)
        self.host.send(sender, SubscriptionKept(known.life, said.subscription, known.version))

    def forget(self, name: Name) -> None:
        """The member's lease is over."""
        self.changed.note(name)
        for number in self.worded.pop(name, {}):
            self._standing.remove((name, number))

    def count(self, name: Name) -> int:
        """How many subscriptions of a member stand."""
        return sum(each.target is not None for each in self.worded.get(name, {}).values())

    def matching(self, description: Description) -> list[Contact]:
        found = dict.fromkeys(self._standing.matching(description))
        return list(dict.fromkeys(self.worded[name][number].contact for name, number in found))

    def holdings(self) -> Any:
        return [(*key, target) for key, target in self._standing.items()]
