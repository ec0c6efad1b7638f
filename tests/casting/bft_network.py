"""A small standing network of the Byzantine-tolerant design on ledgers, with every message in the tester's hand."""

from collections import Counter, deque
from dataclasses import replace
from typing import Any

import msgspec

from implicast.casting.bft import roles
from implicast.casting.bft.authority_peer import AuthorityPeer
from implicast.casting.bft.keys import tag_realm
from implicast.casting.bft.member import Bft
from implicast.casting.bft.validator import ALL_CHECKS, CastHop, Source
from implicast.casting.designs import design
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.events import Notice
from implicast.peer.identity import Certificate
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of, network_of
from implicast.peer.signatures import Signer
from implicast.world.plan import Plan
from implicast.world.populations.bft import assemble
from implicast.world.populations.keys import credentials

NOW_US = 1_000_000_000


def tagged(*tags: str) -> Target:
    """Whoever has all of these tags."""
    return Target((Term(has=tuple(sorted(tags))),))


class Network:
    """n members, all with the tag `jazz`; those of an even address also with `opera`. Or plain ones, only at home."""

    def __init__(
        self,
        n: int = 40,
        checks: frozenset[int] = ALL_CHECKS,
        plain: bool = False,
        start: str = "assembled",
        said: list[Description] | None = None,
        **parameters: Any,
    ) -> None:
        self.plain = plain
        self.carried = 0
        self.ledgers = [Ledger(seed=address, now_us=NOW_US) for address in range(n + 1)]
        settled = design("bft").settle(
            {"signatures": "stand-in", "assurance": "none", **parameters}
        )
        usual = [("jazz", "opera"), ("jazz",)]
        said = said or [Description(() if plain else usual[each % 2]) for each in range(n)]
        plan = Plan(
            n,
            1,
            settled,
            1,
            lambda address: self.ledgers[address],
            lambda a, b: 1,
            descriptions=said,
            start=start,
        )
        self.plan = replace(
            plan, roles=roles(plan.peers, plan.infrastructure), credentials=credentials
        )
        population = assemble(plan, checks)
        self.members = [peer for peer in population if isinstance(peer, Bft)]
        office = population[-1]
        assert isinstance(office, AuthorityPeer)
        self.office = office
        if start == "assembled":
            for member, description in zip(self.members, said, strict=True):
                member.register(description)
            self.take()

    def take(self) -> None:
        for ledger in self.ledgers:
            ledger.take()

    def place(self, address: int, tag: str = "jazz") -> Certificate:
        member = self.members[address]
        if self.plain:
            return member.graph.certificates()[0]
        return next(
            each for each in member.graph.certificates() if each.key.startswith(tag_realm(tag))
        )

    def cast(
        self, address: int, target: Target, payload: bytes = b"hello"
    ) -> list[tuple[int, CastHop]]:
        """What the publisher sends; nothing is carried yet."""
        self.members[address].cast(target, payload)
        return [
            (to, message)
            for to, message in self.ledgers[address].sent()
            if isinstance(message, CastHop)
        ]  # type: ignore[misc]

    def sent(self, address: int) -> list[Any]:
        return self.ledgers[address].sent()

    def carry(
        self, sent: list[tuple[int, Any]], silent: frozenset[int] = frozenset()
    ) -> Counter[int]:
        """Carry messages until nobody sends any more; the silent send nothing. How often each was notified."""
        queue = deque(sent)
        self.carried = len(queue)
        notified: Counter[int] = Counter()
        while queue:
            to, message = queue.popleft()
            self.members[to].receive(-1, message)
            for verb, whom, what in self.ledgers[to].take():
                if verb == "deliver" and isinstance(what, Notice):
                    notified[to] += 1
                elif verb == "send" and to not in silent:
                    queue.append((whom, what))  # type: ignore[arg-type]
                    self.carried += 1
        return notified

    def settle(self, address: int) -> list[Message]:
        """Carry what a member has sent, and all that follows from it; what the member delivers."""
        queue, told = deque([(address, *each) for each in self._noted(address)]), list[Message]()
        while queue:
            sender, verb, to, what = queue.popleft()
            if verb == "send":
                peer = self.office if to == len(self.members) else self.members[to]  # type: ignore[index,call-overload]
                peer.receive(sender, what)
                queue.extend((to, *each) for each in self._noted(to))  # type: ignore[misc,arg-type]
            elif verb == "deliver" and sender == address:
                told.append(what)
        return told

    def _noted(self, address: int) -> list[Any]:
        return self.ledgers[address].take()

    def hand(self, address: int, message: Message) -> tuple[dict[str, int], list[Any]]:
        """Give one message to one member: what it counted, and what it did."""
        before = Counter(self.members[address].multicasts.validator.refusals)
        self.members[address].receive(-1, message)
        return dict(self.members[address].multicasts.validator.refusals - before), self.ledgers[
            address
        ].take()

    # --- forgers' tools: a liar has its own keys, and only these

    def signer(self, address: int) -> Signer:
        return self.members[address].keys.signer

    def resigned(self, address: int, source: Source) -> Source:
        """The source part, signed by this member whoever it claims to be from."""
        return msgspec.structs.replace(source, signature=self.signer(address).sign(source.body()))

    def hop(self, address: int, source: Source, level: int, tag: str = "jazz") -> CastHop:
        """A step signed by this member."""
        return self.members[address].multicasts.signed_hop(source, level, self.place(address, tag))

    def common(self, one: int, other: int) -> int:
        return self.members[0].multicasts.validator.vectors.common(
            self.place(one).vector, self.place(other).vector
        )


EVERYONE = Target((Term(lacks=("nobody",)),))


def forged_cast(publisher: int) -> CastId:
    return CastId(name_of(network_of(1), publisher), 1, 77)
