"""Reads and plays scenes: protocol conversations in text files, each with its transcript.

A scene file is a sequence of blocks. A block is command lines, a line `----`, the transcript that
follows from the commands (`ok` if it is empty), and an empty line. Lines that begin with `#` are
comments. All blocks of a file play in one world, one after the other. Every message takes 10 ms.

    design NAME peers=N [seed=S] [quick] [set NAME=VALUE]...
                             assembles the converged network; nobody is registered;
                             `quick` takes the parameters of the design for quick repair
    register 2 jazz, football    member 2 registers this description
    withdraw 2, leave 2      member 2 withdraws, or leaves
    cast 0 "jazz & football" member 0 casts
    join 5 [via 0, 1]        a newcomer joins at address 5
    crash 4                  peer 4 crashes; infrastructure is named by its role: `crash server`
    return 4                 peer 4 returns with what it had written down
    partition 0, 1 | 2, 3    no message passes between the two sides
    heal                     all messages pass again
    run [2s | 500ms]         runs the world for a time, or until it is at rest
    show LEVEL               what is printed: `nothing`, `events`, `verbs` (events, and messages
                             that are not upkeep; the default), `all`
    hide KIND, ...           omits kinds of messages
    hide arriving KIND, ...  omits messages of these kinds unless they are lost
    only KIND, ...           omits all kinds of messages but these
    hide nothing             takes back `hide` and `only`
    check                    compares the state of all peers with the rules of the overlay

A message is printed when it is sent, with `(lost)` if a partition stops it and `(dead)` if there is
nobody at the address. Peers and names are printed as addresses, casts by number, versions and
stamps as life.number; keys and bytes are cut; empty fields are omitted.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches, unified_diff
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from implicast.casting.designs import Design, design
from implicast.language.parse import description, parse
from implicast.language.render import render
from implicast.language.target import Description, Target
from implicast.peer.contract import NUMBER_BITS, CastId, Message, Peer
from implicast.peer.errors import LocalError
from implicast.peer.events import Joined, Left, Notice, Refused, Registered, Settled, Withdrawn
from implicast.peer.member import Member
from implicast.peer.name import CHANCE_BITS
from implicast.peer.wire import Codec
from implicast.space.ring import ID_BITS
from implicast.world.journal import JOIN, LEAVE, REGISTER, UPKEEP, WITHDRAW
from implicast.world.link_faults import LinkFaults
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

SEPARATOR = "----"
LATENCY_US = 10_000
"""Every message takes 10 ms."""
LINGER_US = 30_000_000
"""A peer that has left still answers for so long."""
WIDTH = 110
"""Characters of a transcript line; longer lines are cut."""
FIELD = 34
"""Characters of a field; longer ones are cut."""
WORDED = 48
"""Bytes up to this length may be keys and lists of tags: the words in them are printed."""
ITEMS = 4
"""Items of a tuple that are printed."""
PLAIN = 1 << 29
"""Numbers below this are printed in full; of others the first and last hexadecimal digits."""
STAMP_BITS = (NUMBER_BITS, 22)
"""Bits below the life in a version and in a stamp."""
LEVELS = ("nothing", "events", "verbs", "all")
UNITS_US = {"s": 1_000_000, "ms": 1_000}


class SceneError(Exception):
    """A scene file that cannot be played; the text names the file and the line."""


# --- the file


@dataclass(frozen=True, slots=True)
class Line:
    """One command and where it stands."""

    number: int
    text: str


@dataclass(slots=True)
class Block:
    """Lines up to the separator, and the transcript behind it."""

    head: list[str] = field(default_factory=list)
    commands: list[Line] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene file."""

    name: str
    text: str
    blocks: tuple[Block, ...]

    def rewritten(self, transcripts: Sequence[Sequence[str]]) -> str:
        """The text of the file with these transcripts in place of its own."""
        parts = [
            "\n".join([*block.head, SEPARATOR, *transcript]) + "\n"
            for block, transcript in zip(self.blocks, transcripts, strict=True)
        ]
        return "\n".join(parts)


def read_scene(name: str, text: str) -> Scene:
    """Splits a text into blocks; a `SceneError` if the last block has no separator."""
    blocks, block, in_transcript, number = [], Block(), False, 1
    for number, line in enumerate(text.splitlines(), 1):
        if in_transcript and line.strip():
            block.transcript.append(line)
        elif in_transcript:
            block, in_transcript = Block(), False
        elif line == SEPARATOR:
            blocks.append(block)
            in_transcript = True
        else:
            block.head.append(line)
            if line.strip() and not line.startswith("#"):
                block.commands.append(Line(number, line.strip()))
    if not in_transcript and any(each.strip() for each in block.head):
        raise SceneError(f"{name}:{number}: the block ends without a line {SEPARATOR}")
    if not blocks:
        raise SceneError(f"{name}:1: there is no block; a block is commands and a line {SEPARATOR}")
    return Scene(name, text, tuple(blocks))


def difference(scene: Scene, played: str) -> str:
    """Empty if the scene plays as its file says; else a diff."""
    if played == scene.text:
        return ""
    lines = scene.text.splitlines(), played.splitlines()
    return "\n".join(
        unified_diff(*lines, f"{scene.name} (file)", f"{scene.name} (played)", lineterm="")
    )


def play(scene: Scene) -> str:
    """The text of the file with the transcripts that its commands lead to."""
    player = Player()
    transcripts = []
    for block in scene.blocks:
        for line in block.commands:
            try:
                player.obey(line.text)
            except (LocalError, ValueError) as wrong:
                raise SceneError(f"{scene.name}:{line.number}: {line.text}: {wrong}") from wrong
        transcripts.append(player.take_transcript())
    return scene.rewritten(transcripts)


# --- the words


class Wording:
    """Prints peers, messages and events in a compact form that is the same in every run."""

    def __init__(self, casts: dict[CastId, int], labels: dict[int, str]) -> None:
        self._casts, self.labels = casts, labels
        self._names: dict[bytes, str] = {}
        self._incarnations: set[int] = set()

    def meet(self, address: int, peer: Peer) -> None:
        """Learns the name and the life of a member."""
        if isinstance(peer, Member):
            self._names[peer.name] = self.peer(address)
            self._incarnations.add(peer.incarnation)

    def peer(self, address: object) -> str:
        """The number of a member, or the role of a piece of infrastructure."""
        return self.labels.get(address, str(address)) if isinstance(address, int) else str(address)

    def message(self, message: Message) -> str:
        """The kind of a message and its fields."""
        fields = [(name, getattr(message, name)) for name in message.__struct_fields__]
        shown = [
            f"{name}={_cut(self.value(value), FIELD)}"
            for name, value in fields
            if not _is_empty(value)
        ]
        return " ".join([type(message).__name__, *shown])

    def event(self, event: Message) -> str:
        """What a peer tells its application."""
        if isinstance(event, Notice):
            return f"notices cast {self.value(event.cast)}"
        if isinstance(event, Settled):
            counts = f"notified={event.notified} unreachable={event.unreachable}"
            more = f" declined={event.declined}" if event.declined else ""
            more += f" open={event.open}" if event.open else ""
            return f"receipt of cast {self.value(event.cast)} {counts}{more}"
        if isinstance(event, Registered | Withdrawn):
            return f"{type(event).__name__.lower()} version={self.value(event.version)}"
        if isinstance(event, Refused):
            return f"refused {event.verb}: {event.reason}"
        return (
            "joined"
            if isinstance(event, Joined)
            else "left"
            if isinstance(event, Left)
            else self.message(event)
        )

    def value(self, value: object) -> str:
        """One field. Casts are numbered, names become addresses, long numbers and bytes are cut."""
        if isinstance(value, bool) or value is None:
            return {True: "yes", False: "no", None: "-"}[value]
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, float):
            return f"{value:g}"
        if isinstance(value, bytes):
            return self._names.get(value) or _bytes_text(value)
        if isinstance(value, frozenset | set):
            return self._items(sorted(value), "{}")
        if isinstance(value, tuple | list):
            return self._items(value, "[]")
        return self._struct(value) if isinstance(value, msgspec.Struct) else str(value)

    def _number(self, number: int) -> str:
        if number in self._incarnations:
            return f"L{number >> CHANCE_BITS}"
        for bits in STAMP_BITS:
            if number >> bits in self._incarnations:
                return f"{number >> bits >> CHANCE_BITS}.{number & (1 << bits) - 1}"
        digits = f"{number:0{ID_BITS // 4}x}"
        return str(number) if -PLAIN < number < PLAIN else f"{digits[:3]}..{digits[-2:]}"

    def _items(self, values: Sequence[object], marks: str) -> str:
        shown = [self.value(each) for each in values[:ITEMS]]
        more = [f"+{len(values) - ITEMS}"] if len(values) > ITEMS else []
        return marks[0] + ",".join(shown + more) + marks[1]

    def _struct(self, value: Any) -> str:
        if isinstance(value, CastId):
            return str(self._casts.get(value, "?"))
        if "address" in value.__struct_fields__:
            return self.peer(value.address)
        if isinstance(value, Target):
            return f'"{render(value)}"'
        if isinstance(value, Description):
            return "{" + ",".join(value.tags) + "}"
        return (
            "("
            + ",".join(self.value(getattr(value, name)) for name in value.__struct_fields__)
            + ")"
        )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 2] + ".."


def _bytes_text(value: bytes) -> str:
    """The length, and the words of a short value."""
    words = re.findall(rb"[a-z]{4,}", value) if len(value) <= WORDED else []
    text = ",".join(word.decode() for word in words)
    return f"<{text} {len(value)}B>" if text else f"<{len(value)}B>" if value else "-"


def _is_empty(value: object) -> bool:
    """Such fields are not printed; zero is."""
    return value is None or value is False or (isinstance(value, str | bytes | tuple) and not value)


# --- the world


class Even:
    """A network on which every message takes the same time."""

    def latency_us(self, a: int, b: int) -> int:
        """One way from a to b."""
        return LATENCY_US if a != b else 0


Watcher = Callable[[int, int, Message, int], None]
"""sender, receiver, message, purpose."""


class WatchedWorld(World):
    """A world that tells a watcher of each message that is sent."""

    watcher: Watcher

    def carry(self, sender: int, to: int, message: Message) -> None:
        """Carries the message, then tells the watcher."""
        super().carry(sender, to, message)
        self.watcher(sender, to, message, self.facts[0])


class Stage:
    """The network of one scene: a world, its peers, and the verbs of the scene."""

    def __init__(self, found: Design, peers: int, seed: int, given: dict[str, str]) -> None:
        self.design, self.link_faults = found, LinkFaults(None)
        parameters, carrier = found.settle(given), Even()
        self.world = WatchedWorld(carrier, seed, None, self.link_faults, Codec(found.kinds))
        infrastructure = found.infrastructure(peers, parameters)
        plan = Plan(
            peers,
            infrastructure,
            parameters,
            seed,
            self.world.host,
            carrier.latency_us,
            credentials=population(found).credentials,
        )
        self.plan = replace(plan, roles=found.roles(peers, infrastructure))
        self.wording = Wording(self.world.casts, _labels(self.plan))
        self.disks: dict[int, Any] = {}
        self.left: set[int] = set()
        self.starts = 0

    def assemble(self) -> None:
        """Places the converged network."""
        for address, peer in enumerate(population(self.design).assemble(self.plan)):
            self._place(address, peer)

    def member(self, address: int) -> Member:
        """The member at an address."""
        peer = self.world.peers.get(address)
        if not isinstance(peer, Member):
            raise ValueError(f"there is no member at {address}")
        return peer

    def do(self, purpose: int, verb: Callable[[], object]) -> None:
        """Lets the application act now."""
        self.world.at(self.world.now_us, purpose, verb)
        self.world.run(self.world.now_us)

    def newcomer(self, address: int, via: tuple[int, ...]) -> None:
        """Places a peer that has yet to join, and lets it join."""
        if address in self.world.peers:
            raise ValueError(f"there is a peer at {address}")
        member = self.plan.new_member(self.design, address)
        self._place(address, member)
        self.do(JOIN, lambda: member.join(via))

    def cast(self, address: int, target: Target) -> int:
        """Lets a member cast; returns the number of the cast."""
        number, member = len(self.world.casts), self.member(address)
        self.world.announce(member.upcoming_cast(), number)
        self.do(number, lambda: member.cast(target, b""))
        return number

    def crash(self, address: int) -> None:
        """Stops a peer; its disk stays."""
        if address not in self.world.peers:
            raise ValueError(f"there is no peer at {address}")
        self.disks[address] = self.world.peers[address].durable_state()
        self.world.crash(address)

    def bring_back(self, address: int, via: tuple[int, ...]) -> None:
        """Starts a crashed peer again with its disk."""
        if address not in self.disks:
            raise ValueError(f"{address} did not crash")
        kept = self.disks.pop(address)
        incarnation = kept.incarnation if kept is not None else 0
        self.starts += 1
        if address in range(self.plan.peers, self.plan.peers + self.plan.infrastructure):
            self.do(
                UPKEEP,
                lambda: self._place(
                    address, self.plan.new_fixture(self.design, address, incarnation, kept)
                ),
            )
        else:
            member = self.plan.new_member(self.design, address, incarnation, 0, kept, self.starts)
            self._place(address, member)
            self.do(JOIN, lambda: member.join(via))

    def depart(self, address: int) -> None:
        """A peer has left: it stops after a while."""
        self.left.add(address)
        self.world.at(self.world.now_us + LINGER_US, UPKEEP, lambda: self.world.crash(address))

    def present(self) -> list[int]:
        """Addresses of all peers that have not left."""
        return [address for address in sorted(self.world.peers) if address not in self.left]

    def members(self) -> list[int]:
        """Addresses of all members that have not left."""
        return [each for each in self.present() if isinstance(self.world.peers[each], Member)]

    def loss(self, sender: int, to: int) -> str:
        """Why a message that is sent now does not arrive; empty if it does."""
        if not self.link_faults.meet(self.world.now_us, sender, to):
            return " (lost)"
        return "" if to in self.world.peers else " (dead)"

    def objections(self) -> list[str]:
        """Sentences about what is wrong with the overlay."""
        return population(self.design).objections(
            [self.world.peers[each] for each in self.present()]
        )

    def _place(self, address: int, peer: Peer) -> None:
        self.world.place(address, peer)
        self.wording.meet(address, peer)


def _labels(plan: Plan) -> dict[int, str]:
    """By address, the role of infrastructure; with its address if there are several of the role."""
    return {
        address: role if len(addresses) == 1 else f"{role}{address}"
        for role, addresses in plan.roles.items()
        for address in addresses
    }


# --- the commands


class Player:
    """Obeys the commands of one scene and writes the transcript."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._level = "verbs"
        self._hidden: frozenset[str] = frozenset()
        self._hidden_arriving: frozenset[str] = frozenset()
        self._side: frozenset[int] | None = None
        self._written: list[str] = []

    def obey(self, line: str) -> None:
        """Does what one command line says."""
        verb, _, rest = line.partition(" ")
        command = COMMANDS.get(verb)
        if command is None:
            near = get_close_matches(verb, COMMANDS, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
            raise ValueError(f"unknown command {verb!r}; {meant}")
        command(self, rest.strip())

    def take_transcript(self) -> list[str]:
        """What was written since this was last asked; `ok` if nothing was."""
        written, self._written = self._written, []
        return written or ["ok"]

    @property
    def stage(self) -> Stage:
        """The network; the first command makes it."""
        if self._stage is None:
            raise ValueError("the first command is `design`")
        return self._stage

    # --- what is written

    def _write(self, text: str, least: str = "events") -> None:
        if LEVELS.index(self._level) >= LEVELS.index(least):
            line = f"{self.stage.world.now_us / 1000:9.3f} ms  {text}"
            self._written.append(_cut(line, WIDTH))

    def _sent(self, sender: int, to: int, message: Message, purpose: int) -> None:
        level, kind, wording = (
            "all" if purpose == UPKEEP else "verbs",
            type(message).__name__,
            self.stage.wording,
        )
        if LEVELS.index(self._level) < LEVELS.index(level) or kind in self._hidden:
            return
        mark = self.stage.loss(sender, to)
        if mark or kind not in self._hidden_arriving:
            self._write(
                f"{wording.peer(sender)} -> {wording.peer(to)}{mark}  {wording.message(message)}",
                level,
            )

    def _heard(self, address: int, event: Message) -> None:
        self._write(f"{self.stage.wording.peer(address)} {self.stage.wording.event(event)}")
        if isinstance(event, Left):
            self.stage.depart(address)

    # --- commands

    def _design(self, rest: str) -> None:
        if self._stage is not None:
            raise ValueError("there is a design already")
        name, *words = rest.split() or [""]
        if not any(word.startswith("peers=") for word in words):
            raise ValueError("it takes NAME peers=N, and more")
        given = dict(_pair(word) for word in words if word not in ("set", "quick"))
        peers, seed = int(given.pop("peers")), int(given.pop("seed", "1"))
        found = design(name)
        quick = {key: str(value) for key, value in found.quick.items()} if "quick" in words else {}
        self._stage = stage = Stage(found, peers, seed, {**quick, **given})
        stage.world.watcher, stage.world.on_event = self._sent, self._heard
        stage.assemble()

    def _register(self, rest: str) -> None:
        address, said = self._about(rest)
        described = description(said)
        self._write(f"{address} registers {self.stage.wording.value(described)}")
        self.stage.do(REGISTER, lambda: self.stage.member(address).register(described))

    def _withdraw(self, rest: str) -> None:
        address = self._address(rest)
        self._write(f"{address} withdraws")
        self.stage.do(WITHDRAW, self.stage.member(address).withdraw)

    def _leave(self, rest: str) -> None:
        address = self._address(rest)
        self._write(f"{address} leaves")
        self.stage.do(LEAVE, self.stage.member(address).leave)

    def _cast(self, rest: str) -> None:
        address, quoted = self._about(rest)
        if not re.fullmatch('"[^"]+"', quoted):
            raise ValueError('it takes a target in quotes: cast 0 "jazz & football"')
        target = parse(quoted.strip('"'))
        number = len(self.stage.world.casts)
        self._write(f"{address} casts {self.stage.wording.value(target)} (cast {number})")
        self.stage.cast(address, target)

    def _join(self, rest: str) -> None:
        address, via = self._introduced(rest)
        self._write(f"{address} joins via {','.join(map(str, via))}")
        self.stage.newcomer(address, via)

    def _return(self, rest: str) -> None:
        address, via = self._introduced(rest)
        self._write(f"{self.stage.wording.peer(address)} returns")
        self.stage.bring_back(address, via)

    def _crash(self, rest: str) -> None:
        for address in self._addresses(rest):
            self.stage.crash(address)
            self._write(f"{self.stage.wording.peer(address)} crashes")

    def _partition(self, rest: str) -> None:
        one, bar, other = rest.partition("|")
        if not bar or self._side is not None:
            raise ValueError("it takes two sides, `0, 1 | 2, 3`, and `heal` before the next")
        if sorted([*self._addresses(one), *self._addresses(other)]) != self.stage.present():
            present = map(self.stage.wording.peer, self.stage.present())
            raise ValueError(f"it names each of {', '.join(present)} once")
        self._side = frozenset(self._addresses(one))
        self.stage.link_faults.split(self._side)
        self._write(f"partition {rest}")

    def _heal(self, rest: str) -> None:
        if self._side is None or rest:
            raise ValueError("it takes nothing, after `partition`")
        self.stage.link_faults.heal(self._side)
        self._side = None
        self._write("heal")

    def _run(self, rest: str) -> None:
        world = self.stage.world
        world.run(world.now_us + _duration_us(rest) if rest else None)

    def _show(self, rest: str) -> None:
        if rest not in LEVELS:
            raise ValueError(f"it takes one of {', '.join(LEVELS)}")
        self._level = rest

    def _hide(self, rest: str) -> None:
        if rest == "nothing":
            self._hidden = self._hidden_arriving = frozenset()
        elif rest.startswith("arriving "):
            self._hidden_arriving |= self._kinds(rest.removeprefix("arriving "))
        else:
            self._hidden |= self._kinds(rest)

    def _only(self, rest: str) -> None:
        self._hidden = self._known_kinds() - self._kinds(rest)

    def _known_kinds(self) -> frozenset[str]:
        return frozenset(kind.__name__ for kind in self.stage.design.kinds)

    def _kinds(self, text: str) -> frozenset[str]:
        known, kinds = self._known_kinds(), frozenset(word.strip() for word in text.split(","))
        for kind in sorted(kinds - known):
            near = get_close_matches(kind, sorted(known), 3) or sorted(known)
            raise ValueError(
                f"{self.stage.design.name} has no message {kind!r}; it has {', '.join(near)}"
            )
        return kinds

    def _check(self, rest: str) -> None:
        if rest:
            raise ValueError("it takes nothing")
        for sentence in self.stage.objections() or ["no objections"]:
            self._write(f"check: {sentence}")

    def _address(self, word: str) -> int:
        """The address of a member by its number, or of infrastructure by its role."""
        roles = {label: address for address, label in self.stage.wording.labels.items()}
        if word not in roles and not word.isdecimal():
            takes = " or ".join(["a number", *roles])
            raise ValueError(f"{word!r} is no peer; it takes {takes}")
        return roles[word] if word in roles else int(word)

    def _addresses(self, text: str) -> tuple[int, ...]:
        return tuple(self._address(word.strip()) for word in text.split(","))

    def _about(self, rest: str) -> tuple[int, str]:
        number, _, text = rest.partition(" ")
        return self._address(number), text.strip()

    def _introduced(self, rest: str) -> tuple[int, tuple[int, ...]]:
        number, via, known = rest.partition(" via ")
        address = self._address(number)
        here = tuple(each for each in self.stage.members() if each != address)[:1]
        return address, self._addresses(known) if via else here


Command = Callable[[Player, str], None]
COMMANDS: dict[str, Command] = {
    "design": Player._design,
    "register": Player._register,
    "withdraw": Player._withdraw,
    "cast": Player._cast,
    "join": Player._join,
    "leave": Player._leave,
    "crash": Player._crash,
    "return": Player._return,
    "partition": Player._partition,
    "heal": Player._heal,
    "run": Player._run,
    "show": Player._show,
    "hide": Player._hide,
    "only": Player._only,
    "check": Player._check,
}


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"{word!r} is not NAME=VALUE")
    return name, value


def _duration_us(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|ms)", text)
    if match is None:
        raise ValueError(f"{text!r} is no duration; it takes 2s or 500ms")
    return int(float(match[1]) * UNITS_US[match[2]])


def load_scene(path: Path) -> Scene:
    """Reads a scene file."""
    return read_scene(path.name, path.read_text("utf-8"))
