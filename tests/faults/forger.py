"""A member that speaks for others: genuine words of a network, altered, stripped of their proofs or signed anew.

The forger is a member with a key of its own that the authority admitted. It has heard every message, knows everybody's
name, life, version and address, and may send from any address, even the victim's. What it changes is what counts:
versions and stamps ahead, other descriptions, other payloads, other outcomes. `Scene.kept` and `Scene.told` say what
keepers keep and what members were told; words are believed when either changes.
"""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import NotifyAck
from implicast.casting.replicated_lists.entries import IN_FORCE, ListEntry
from implicast.casting.replicated_lists.entry_proofs import EntryProof, entry_proof_of
from implicast.casting.replicated_lists.member import RingMember
from implicast.casting.spice.items import Entry, proved
from implicast.casting.spice.spice import Spice
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.embedded_proofs import extract_proof
from implicast.peer.errors import RemoteError
from implicast.peer.events import Notice, Settled
from implicast.peer.expiry import EXPIRY_BYTES
from implicast.peer.member import Member
from implicast.peer.signing import SIGNED_KINDS, SIGNED_PAYLOAD_BYTES, SignedMessage
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario

REGISTRATIONS = {
    "Register",
    "Subscribe",
    "PutEntry",
    "CopyEntries",
    "SyncEntries",
    "RangeEntries",
    "ReturnEntries",
    "StoreRequest",
    "ReplicateRequest",
    "ItemOffer",
}
CASTS = {
    "Publish",
    "PublishEvent",
    "Notify",
    "EventNotify",
    "Matched",
    "CastRequest",
    "ForwardCast",
    "ForwardToBroker",
}
RECEIPTS = {"NotifyAck", "RegisterOutdated", "EntryOutdated", "NewerEntry", "NewerListEntry"}
KINDS = {"registrations": REGISTRATIONS, "casts": CASTS, "receipts": RECEIPTS}
SAMPLES = 200
FORGED = b"forged"
LIE = Description(("forged",))


class Scene:
    """A network of one design at rest after some casts, and all that was said in it."""

    def __init__(self, name: str, directory: Path, signed: bool, seed: int = 1) -> None:
        given = {"signed": signed, "signatures": "stand-in"}
        few = {"tags": 20, "tags_per_peer": 3}
        scenario = Scenario(
            name,
            peers=12,
            casts=12,
            seed=seed,
            parameters=given,
            workload_parameters=few,
            register="messages",
            payload_bytes=8,
        )
        self.rng = Random(seed)
        self.said: dict[str, list[Message]] = defaultdict(list)
        self.notices: list[Notice] = []
        self.settled: list[Settled] = []
        self.run = Run(scenario, *scenario.settled(), directory / "journal")
        self.world = self.run.world
        look = self.world.classify

        def looked(message: Message) -> None:
            kept = self.said[kind_of(message)]
            if len(kept) < SAMPLES:
                kept.append(message)
            look(message)

        self.world.classify = looked
        self.run.set_up(silent)
        self.run.register(silent)
        self.run.cast(silent)
        self.run.journal.discard()
        self.world.journal = self.world.faults = self.world.codec = None
        self.world.on_event = self.hear
        self.world.latency_us = lambda a, b: 10_000
        self.members = [each for each in self.world.peers.values() if isinstance(each, Member)]
        self.forger = self.members[0]

    def hear(self, address: int, event: Message) -> None:
        if isinstance(event, Notice):
            self.notices.append(event)
        elif isinstance(event, Settled):
            self.settled.append(event)

    def forge_receipts(self, count: int) -> list[Settled]:
        """A member dies, another casts to it, and the forger confirms in the name of the dead; what the publisher
        hears."""
        dead, publisher = self.members[1], self.members[2]
        assert dead.description is not None
        target = Target((Term((dead.description.tags[0],)),))
        self.world.crash(dead.address)
        cast: list[CastId] = []
        self.world.at(self.world.now_us, -1, lambda: cast.append(publisher.cast(target, b"x")))
        self.world.run(self.world.now_us + 1_000_000)
        for number in range(count):
            got = NotifyAck(cast[0], dead.name, Outcome.TAKEN)
            to = self.rng.choice(list(self.world.peers))
            self.world.peers[to].receive(
                dead.address, self.forger.signing.sign_message(got) if number % 2 else got
            )
        self.world.run(self.world.now_us + 120_000_000)
        return [each for each in self.settled if each.cast == cast[0] and not each.open]

    def forge(self, what: str, count: int) -> int:
        """Send so many forged words to everybody; how many were sent."""
        kinds = sorted(KINDS[what] & self.said.keys())
        sent = 0
        for number in range(count if kinds else 0):
            message = self.forged(self.rng.choice(self.said[kinds[number % len(kinds)]]))
            to = self.rng.choice(list(self.world.peers))
            sender = self.rng.choice([9_999, *self.world.peers])
            with suppress(RemoteError):
                self.world.peers[to].receive(sender, message)
            sent += 1
            if number % 200 == 199:
                self.world.run(self.world.now_us + 50_000)
        self.world.run(self.world.now_us + 2_000_000)
        return sent

    # --- altering

    def forged(self, message: Any) -> Any:
        """The same with something else in it, and the old proof, none, or the forger's."""
        if isinstance(message, SignedMessage):
            inner = self.altered(SIGNED_KINDS[message.kind][1].decode(message.body))
            how = self.rng.randrange(3)
            if how == 0:
                return inner
            if how == 1:
                return replace(message, body=msgspec.msgpack.encode(inner))
            return self.forger.signing.sign_message(inner)
        return self.altered(message)

    def altered(self, value: Any) -> Any:
        if isinstance(value, Entry):
            return self.entry(value)
        if isinstance(value, ListEntry):
            return self.row(value)
        if not isinstance(value, msgspec.Struct):
            return value
        names = [each.name for each in fields(value)]
        return replace(
            value, **{name: self.other(value, name, getattr(value, name)) for name in names}
        )

    def other(self, value: Any, name: str, was: Any) -> Any:
        """Another value for a field that counts."""
        if name in ("version", "stamp"):
            return was + self.rng.randrange(1, 1 << 30)
        if name == "serial":
            return was + self.rng.randrange(1000)
        if name == "description":
            return self.rng.choice((LIE, was))
        if name == "outcome":
            return self.rng.choice(list(Outcome))
        if name in ("entries", "rows"):
            return tuple(self.altered(one) for one in was)
        changes = {
            "payload": self.payload,
            "entry": self.altered,
            "row": self.altered,
            "cast": self.altered,
        }
        return (
            self.packed(value, was)
            if name == "packed"
            else changes.get(name, lambda same: same)(was)
        )

    def payload(self, was: bytes) -> bytes:
        """Another payload under the old seal, bare, or under the forger's (its own name is not in the cast)."""
        how = self.rng.randrange(3)
        return was[: SIGNED_PAYLOAD_BYTES if how else EXPIRY_BYTES] + FORGED

    def packed(self, owner: Any, was: bytes) -> bytes:
        entry_proof, how = entry_proof_of(was), self.rng.randrange(4)
        if how == 0 or entry_proof is None:
            return self.rng.choice((b"", entry_proof.packed if entry_proof is not None else was))
        stamp = entry_proof.stamp + self.rng.randrange(1 << 30)
        proof = entry_proof.proof if how == 1 else self.forger.signing.prove(("row", owner, stamp))
        return IN_FORCE + msgspec.msgpack.encode(
            EntryProof(entry_proof.low, entry_proof.high, stamp, entry_proof.packed, proof)
        )

    def row(self, row: ListEntry) -> ListEntry:
        stamp = row.stamp + self.rng.randrange(1, 1 << 30)
        return ListEntry(
            row.key, row.slot, row.owner, row.number, stamp, self.packed(row.owner, row.packed)
        )

    def entry(self, entry: Entry) -> Entry:
        said = self.rng.choice((entry.description, LIE, None))
        ahead = replace(
            entry, version=entry.version + self.rng.randrange(1, 1 << 30), description=said
        )
        how = self.rng.randrange(3)
        if how == 0:
            return replace(ahead, before=extract_proof(entry.before)[0])
        return (
            ahead
            if how == 1
            else proved(self.forger.signing, "forged", replace(ahead, before=None))
        )

    # --- what is believed

    def kept(self) -> set[Any]:
        """What keepers keep of others than the forger, which may say of itself what it likes; and how far members have
        counted."""
        found: set[Any] = set()
        own = self.forger.name
        for at, peer in self.world.peers.items():
            if isinstance(peer, Member) and peer is not self.forger:
                found.add((at, peer.incarnation, peer.version))
            if isinstance(peer, RingMember):
                rows = (
                    each.entry
                    for each in peer.holder_state.entries.all_held()
                    if each.entry.owner.name != own
                )
                found |= {(at, row.slot, row.owner, row.number, row.in_force) for row in rows}
            elif isinstance(peer, Spice):
                for key, registry in peer.registries.all():
                    held = (each.entry for name, each in registry.records.items() if name != own)
                    found |= {
                        (at, key, each.member, each.version, each.description) for each in held
                    }
            elif hasattr(peer, "clients"):
                entries = (each for name, each in peer.clients.entries.items() if name != own)
                found |= {(at, each.contact, each.version, each.description) for each in entries}
        return found

    def told(self) -> list[Notice]:
        return [each for each in self.notices if FORGED in each.payload]


def kind_of(message: Message) -> str:
    kind = type(message)
    return (
        PERSONAL_NAMES.get(message.kind, "")
        if isinstance(message, SignedMessage)
        else kind.__name__
    )


PERSONAL_NAMES = {0x0201: "Register", 0x0102: "NotifyAck", 0x0211: "Subscribe"}
