"""A journal as no design would write it: messages, losses, notifications and changes of mind at random.

Measures must agree on any trace, so the harshest traces are the best test.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from implicast.language.parse import parse
from implicast.language.target import Description
from implicast.space.digest import stream
from implicast.world.application import (
    Cast,
    CastReceipt,
    Registration,
    _cast_columns,
    _registration_columns,
)
from implicast.world.change import PeerIncarnation, Timeline, write_change_tables
from implicast.world.faults import Faults
from implicast.world.invariants import NEVER_US, Away, Forgotten
from implicast.world.journal import REGISTER, UPKEEP, Journal
from implicast.world.scripted_events import LASTING, ScriptedEvent

TAGS = ("jazz", "samba", "go", "football", "naïve", "c++", "machine learning", "rare")
TARGETS = (
    "jazz & go",
    "samba",
    "jazz | samba & football",
    "c++ & !go",
    '"machine learning" | naïve & !jazz',
    "nobody",
    "go & football | rare",
    "jazz & samba & go",
)
ROUTERS = 5
IN_PEACE = 2
"""With this seed peers only join, and nothing happens to messages."""
KINDS = ("join", "leave", "crash", "fail", "freeze", "restart", "split")


@dataclass(slots=True)
class Made:
    """A random journal, and what its applications asked for."""

    directory: Path
    casts: list[Cast]
    registrations: list[Registration]
    gone_us: dict[int, int]
    course: Timeline | None = None
    """Of those in which something changed."""
    incarnations: list[tuple[int, PeerIncarnation]] = field(default_factory=list)
    """Some peers crash, and have a second one."""

    @property
    def away(self) -> Away:
        """As the world says it (`world/simulate.py`), in other words: a crash lasts until the peer is back."""
        back_us = {
            peer: incarnation.back_us or NEVER_US
            for peer, incarnation in self.incarnations
            if incarnation.returned
        }
        return {
            peer: ((at_us, back_us.get(peer, NEVER_US)),) for peer, at_us in self.gone_us.items()
        }

    @property
    def forgotten(self) -> Forgotten:
        return {
            peer: (incarnation.copied_us, [incarnation.from_us])
            for peer, incarnation in self.incarnations
            if incarnation.copied_us is not None
        }


def random_journal(
    directory: Path, seed: int, peers: int = 40, casts: int = 25, sends: int = 1500
) -> Made:
    rng = stream(seed, "random journal")
    gone_us = {
        rng.randrange(peers): 100_000_000 + rng.randrange(40_000_000) for _ in range(seed % 3 * 4)
    }
    made = Made(directory, [], _registrations(seed, peers), gone_us)
    made.casts = [
        Cast(
            number,
            rng.randrange(peers),
            100_000_000 + number * 1_000_000,
            parse(rng.choice(TARGETS)),
        )
        for number in range(casts)
    ]
    warm_up = min(casts, seed % 4)
    for cast in made.casts:
        cast.warm_up = cast.number < warm_up
        if rng.random() < 0.5:
            cast.settled_us = cast.time_us + rng.randrange(60_000_000)
            cast.receipt = CastReceipt(
                rng.randrange(6), rng.randrange(2), rng.randrange(2), rng.random() < 0.3
            )
    journal = Journal(directory, warm_up)
    journal.kinds += ["Cast", "Notify", "Probe"]
    for serial in range(sends):
        sender = rng.randrange(peers)
        receiver = (sender + rng.randrange(1, peers)) % peers
        purpose = rng.choice([rng.randrange(casts)] * 8 + [UPKEEP, REGISTER]) if casts else UPKEEP
        arrived_us = -1 if rng.random() < 0.1 else 200_000_000 + serial
        sent_us = serial * 90_000 + rng.randrange(90_000)
        journal.send(
            serial,
            0,
            sent_us,
            arrived_us,
            sender,
            receiver,
            purpose,
            rng.randrange(1, 9),
            40,
            rng.randrange(3),
        )
    for number in range(rng.randrange(3)):
        journal.notice(0, 110_000_000, rng.randrange(peers), -1 - number, 1)
    for cast in made.casts:
        for _ in range(rng.randrange(12)):
            journal.notice(
                0,
                cast.time_us + rng.randrange(-9_000_000, 90_000_000),
                rng.randrange(peers),
                cast.number,
                rng.randrange(9),
                rng.random() < 0.05,
            )
    journal.columns("casts", _cast_columns(made.casts))
    journal.columns("registrations", _registration_columns(made.registrations))
    _write_network(journal, seed, peers)
    if gone_us:
        _write_change(journal, seed, peers, made)
    journal.finish()
    journal.scenario({"seed": seed, **({"faults": asdict(Faults())} if seed == IN_PEACE else {})})
    journal.close()
    return made


def _write_change(journal: Journal, seed: int, peers: int, made: Made) -> None:
    """Some crash, some leave, some only try to; looks at random moments find something wrong every other time."""
    rng = stream(seed, "change")
    incarnations = {
        peer: PeerIncarnation(rng.choice((0, 0, 90_000_000)), rng.choice((0, 0, None)))
        for peer in range(peers)
    }
    for peer, at_us in made.gone_us.items():
        end = rng.choice(("crashed", "left", "stayed", "leaving and crashed"))
        leaving_us = None if end == "crashed" else at_us
        to_us = (
            None
            if end == "stayed"
            else at_us
            if end == "crashed"
            else at_us + rng.randrange(9_000_000)
        )
        incarnations[peer] = PeerIncarnation(0, 0, leaving_us, to_us, end.rpartition(" ")[2])
    again = [
        (
            peer,
            PeerIncarnation(
                incarnation.to_us + 5_000_000,
                rng.choice((None, incarnation.to_us + 6_000_000)),
                None,
                None,
                "stayed",
                True,
                rng.choice((None, incarnation.to_us + rng.randrange(6_000_000, 30_000_000))),
                rng.choice((None, 101_000_000)),
            ),
        )
        for peer, incarnation in incarnations.items()
        if incarnation.end == "crashed"
        and incarnation.leaving_us is None
        and incarnation.to_us is not None
        and rng.random() < 0.5
    ]
    events = [
        _deed(rng, "join" if seed % 4 == 2 else rng.choice(KINDS))
        for _ in range(rng.randrange(1, 12))
    ]
    well_us = 104_000_000 if seed % 5 == 0 else 160_000_000  # one in five is never well again
    moments_us = sorted(100_000_000 + rng.randrange(60_000_000) for _ in range(60))
    looks = [(at_us, ["a hole"] * (at_us > well_us or rng.randrange(2))) for at_us in moments_us]
    last_us = max(100_000_000 + int(event.to_s * 1e6) for event in events)
    end_us = 160_000_000 + seed % 2 * 30_000_000  # one in two rests for a minute
    made.course = Timeline(100_000_000, last_us, last_us + rng.randrange(9_000_000), end_us)
    write_change_tables(journal, made.course, tuple(events), [*incarnations.items(), *again], looks)
    if seed == IN_PEACE:  # where leaving is no excuse
        made.gone_us = {
            peer: incarnation.to_us
            for peer, incarnation in incarnations.items()
            if incarnation.end == "crashed" and incarnation.to_us
        }
    made.incarnations = [*incarnations.items(), *again]


def _deed(rng: Random, kind: str) -> ScriptedEvent:
    from_s = round(rng.uniform(0, 12), 3)
    return ScriptedEvent(from_s, from_s + 5 if kind in LASTING else from_s, kind, (1,))


def _registrations(seed: int, peers: int) -> list[Registration]:
    """One to three versions each, some withdrawn, some never complete."""
    rng = stream(seed, "registrations")
    made = []
    for peer in range(peers):
        begun_us = rng.randrange(1000)
        for version in range(1, rng.choice((1, 1, 1, 2, 3)) + 1):
            tags = tuple(sorted(rng.sample(TAGS, rng.randrange(1, 6))))
            described = None if version > 1 and rng.random() < 0.3 else Description(tags)
            completed_us = begun_us + rng.randrange(1, 5_000_000) if rng.random() < 0.9 else None
            made.append(Registration(peer, version, begun_us, described, completed_us))
            begun_us += rng.randrange(5_000_000, 130_000_000)
    return made


def _write_network(journal: Journal, seed: int, peers: int) -> None:
    rng = stream(seed, "network")
    router = [rng.randrange(ROUTERS) for _ in range(peers)]
    rows = [
        {
            "peer": peer,
            "role": "peer",
            "router": router[peer],
            "access_us": 1000,
            "storage_bytes": rng.randrange(5000),
            "capacity": rng.choice((0.5, 1.0, 4.0)),
        }
        for peer in range(peers)
    ]
    journal.table("peers", rows)
    links = [
        {"link": link, "source": link % ROUTERS, "target": 0, "latency_us": 1000}
        for link in range(12)
    ]
    journal.table("links", links)
    pairs = [(a, b) for a in range(ROUTERS) for b in range(ROUTERS) if a != b]
    paths = [
        {"source_router": a, "target_router": b, "position": position, "link": link}
        for a, b in pairs
        for position, link in enumerate(rng.sample(range(12), rng.randrange(1, 5)))
    ]
    journal.table("paths", paths)
