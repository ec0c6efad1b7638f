"""Tag rules in simulation (thesis, 10.2.2): their recall, precision and cost in messages.

Every peer means a few concepts of a thesaurus and describes each with one of its words. A publisher
means a concept too and writes one word. A cast is due to all peers that mean the concept or a
narrower one. Some peers state rules about words they know; some state wrong ones. Rules travel as
casts to the peers that use either word. Each cast is made twice: as written, and widened by the
rules that enough names state. Messages are counted above those of a world without casts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files

from implicast.casting.designs import design
from implicast.language.parse import parse
from implicast.language.rules import Rule, Stated, offers, stated, widened
from implicast.language.tags import written
from implicast.language.target import Description, Target
from implicast.peer.contract import Message
from implicast.peer.events import Notice
from implicast.peer.member import Member
from implicast.space.digest import digest_bits
from implicast.world.core import new_world
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population

WORD_SHARES = (0.55, 0.8, 0.93, 1.0)
"""Cumulative probability that the first, second, ... word of a concept is used."""
SPACING_US = 3_000_000
QUIET_US = 30_000_000
WIDENING = ("USE", "UF", "NT")
"""Relations that a publisher adopts to reach all peers that mean the concept."""


@dataclass(frozen=True, slots=True)
class TagRuleSettings:
    """Settings of one trial."""

    name: str = "spice-unloaded"
    peers: int = 256
    casts: int = 60
    concepts: int = 3
    """Concepts that each peer means, at most."""
    states: float = 0.35
    """Probability that a peer states a rule about a concept it means."""
    wrong: float = 0.1
    """The share of names that state two random rules instead."""
    names_min: int = 3
    """Number of names from which on a rule is offered."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Concept:
    words: tuple[str, ...]
    includes: tuple[str, ...]
    """Preferred words of the narrower concepts."""


@dataclass(frozen=True, slots=True)
class TagRuleOutcome:
    """Means over all casts; messages per cast, and all messages of the rules."""

    recall_before: float
    recall_after: float
    precision_before: float
    precision_after: float
    messages_before: float
    messages_after: float
    rules: int
    rule_messages: int


def thesaurus() -> dict[str, Concept]:
    """The thesaurus of this package, by preferred word."""
    found = {}
    for line in (files("implicast.trials") / "thesaurus.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            words, _, narrower = line.partition(" NT ")
            found[words.split()[0]] = Concept(tuple(words.split()), tuple(narrower.split()))
    return found


class TagRules:
    """One world of peers that use different words for the same concept."""

    def __init__(self, settings: TagRuleSettings) -> None:
        self.settings = settings
        self._concepts = thesaurus()
        self._preferred = list(self._concepts)
        self._notified: set[int] = set()

    def _draw(self, most: int, *parts: object) -> int:
        return digest_bits(40, self.settings.seed, *parts) % most

    def _chance(self, *parts: object) -> float:
        return digest_bits(40, self.settings.seed, *parts) / (1 << 40)

    def _word(self, concept: str, *who: object) -> str:
        words, chance = self._concepts[concept].words, self._chance("word", concept, *who)
        place = next(number for number, most in enumerate(WORD_SHARES) if chance <= most)
        return words[min(place, len(words) - 1)]

    @cached_property
    def meant(self) -> list[list[str]]:
        """By peer: the concepts that it means. The thesaurus lists the most common first."""
        count = len(self._preferred)
        return [
            sorted(
                {
                    self._preferred[int(count * self._chance("means", peer, number) ** 2)]
                    for number in range(self.settings.concepts)
                }
            )
            for peer in range(self.settings.peers)
        ]

    def descriptions(self) -> list[Description]:
        return [
            Description(tuple(sorted({self._word(each, peer) for each in concepts})))
            for peer, concepts in enumerate(self.meant)
        ]

    def who_meant(self, concept: str) -> set[int]:
        wanted = {concept, *self._concepts[concept].includes}
        return {peer for peer, concepts in enumerate(self.meant) if wanted & set(concepts)}

    # --- rules

    @cached_property
    def rules(self) -> list[tuple[int, Rule]]:
        """The rules, each with the peer that states it."""
        found = []
        for peer, concepts in enumerate(self.meant):
            if self._chance("wrong", peer) < self.settings.wrong:
                found += [(peer, self._random_rule(peer, number)) for number in range(2)]
                continue
            for concept in concepts:
                if self._chance("states", peer, concept) < self.settings.states:
                    found += [(peer, rule) for rule in self._own_rules(peer, concept)]
        return found

    def _own_rules(self, peer: int, concept: str) -> list[Rule]:
        """The rules that a peer states about a concept: two of its other words, and one narrower
        concept.
        """
        known = self._concepts[concept]
        description = self._word(concept, peer)
        others = [word for word in known.words if word != description]
        start = self._draw(len(others), "knows", peer, concept)
        rules = [Rule(description, "UF", word) for word in (others + others)[start : start + 2]]
        if known.includes:
            rules.append(
                Rule(
                    description,
                    "NT",
                    known.includes[self._draw(len(known.includes), "narrower", peer, concept)],
                )
            )
        return rules

    def _random_rule(self, peer: int, number: int) -> Rule:
        one, other = (
            self._preferred[self._draw(len(self._preferred), "any", peer, number, side)]
            for side in (0, 1)
        )
        return Rule(one, "UF", other if other != one else self._concepts[one].words[-1])

    def about(self, tag: str) -> Stated:
        return stated(tag, ((str(peer), rule) for peer, rule in self.rules))

    def wider(self, target: Target, publisher: int) -> Target:
        """The target of a publisher that accepts all offers of synonyms and narrower concepts, one
        round of them.
        """
        for offer in offers(target, self.about, str(publisher), self.settings.names_min):
            if offer.relation in WIDENING:
                target = widened(target, offer.tag, offer.other)
        return target

    # --- the world

    def run(self) -> TagRuleOutcome:
        publishers = [
            self._draw(self.settings.peers, "publisher", cast)
            for cast in range(self.settings.casts)
        ]
        wanted = [
            self.meant[who][self._draw(len(self.meant[who]), "concept", cast)]
            for cast, who in enumerate(publishers)
        ]
        plain = [
            parse(written(self._word(concept, "cast", cast))) for cast, concept in enumerate(wanted)
        ]
        wide = [self.wider(target, who) for target, who in zip(plain, publishers, strict=True)]
        before, messages_before = self._cast(publishers, plain)
        after, messages_after = self._cast(publishers, wide)
        stating = [
            (peer, parse(f"{written(rule.tag)} | {written(rule.other)}"))
            for peer, rule in self.rules
        ]
        _, rule_messages = self._cast(
            [peer for peer, _ in stating], [target for _, target in stating]
        )
        due = [self.who_meant(concept) for concept in wanted]
        return TagRuleOutcome(
            _mean(
                [
                    len(notified & meant) / len(meant)
                    for notified, meant in zip(before, due, strict=True)
                ]
            ),
            _mean(
                [
                    len(notified & meant) / len(meant)
                    for notified, meant in zip(after, due, strict=True)
                ]
            ),
            _mean(
                [
                    len(notified & meant) / len(notified)
                    for notified, meant in zip(before, due, strict=True)
                    if notified
                ]
            ),
            _mean(
                [
                    len(notified & meant) / len(notified)
                    for notified, meant in zip(after, due, strict=True)
                    if notified
                ]
            ),
            messages_before / len(plain),
            messages_after / len(wide),
            len(self.rules),
            rule_messages,
        )

    def _cast(
        self, publishers: Sequence[int], targets: Sequence[Target]
    ) -> tuple[list[set[int]], int]:
        """The peers that each cast reached in a fresh world, and the messages of all casts."""
        until_us = 2 * QUIET_US + len(targets) * SPACING_US
        notified, messages = self._carried(publishers, targets, until_us)
        return notified, messages - self._carried([], [], until_us)[1]

    def _carried(
        self, publishers: Sequence[int], targets: Sequence[Target], until_us: int
    ) -> tuple[list[set[int]], int]:
        own = design(self.settings.name)
        peers, seed, parameters = self.settings.peers, self.settings.seed, own.settle({})
        count = own.infrastructure(peers, parameters)
        network = build("flat", peers, count, seed)
        world = new_world(network, seed)
        notified: dict[object, set[int]] = defaultdict(set)
        world.on_event = partial(_on_event, notified)
        plan = Plan(
            peers,
            count,
            parameters,
            seed,
            world.host,
            network.latency_us,
            descriptions=self.descriptions(),
            resting=True,
            credentials=population(own).credentials,
        )
        plan = replace(plan, roles=own.roles(peers, count))
        members = population(own).assemble(plan)
        for address, peer in enumerate(members):
            world.place(address, peer)
        for number, description in enumerate(plan.descriptions):
            world.at(1 + number * 1000, 0, partial(_member(members[number]).register, description))
        world.run(QUIET_US)
        begun = world.carried
        named: list[object] = []
        for number, (publisher, target) in enumerate(zip(publishers, targets, strict=True)):
            member = _member(members[publisher])
            world.at(
                QUIET_US + number * SPACING_US, 0, partial(_publish_cast, member, target, named)
            )
        world.run(until_us)
        return [notified[cast] for cast in named], world.carried - begun


def _member(peer: object) -> Member:
    assert isinstance(peer, Member)
    return peer


def _publish_cast(member: Member, target: Target, named: list[object]) -> None:
    named.append(member.upcoming_cast())
    member.cast(target, b"")


def _on_event(notified: dict[object, set[int]], address: int, event: Message) -> None:
    if isinstance(event, Notice):
        notified[event.cast].add(address)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
