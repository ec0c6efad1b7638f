"""One seeded schedule of faults over real processes, and the laws that hold after it.

    unshare -rnmpf --kill-child --mount-proc python tests/live/schedule.py SEED NUMBER

runs one (again), in namespaces of its own, and prints what happened as JSON; exit code 1 when a law was broken.
"""

import contextlib
import json
import multiprocessing
import random
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import hurt

from implicast.casting.designs import DESIGN_MODULES, design
from implicast.language.parse import description, parse
from implicast.net.commands import control
from implicast.net.commands.live_check import draw
from implicast.net.commands.local import LocalNetwork, sample_members
from implicast.net.config import address_of, read_config, write_config
from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.enrolment import enrol
from implicast.net.identity.keys import own_key, pem

MEMBERS = 6
PACE_S = 0.12
REPAIR_S = 15.0
"""After the last fault, within this time casts are exact again: with quick settings ten seconds, on a busy machine
more."""
GROWTH_KB = 12_000
CASTS_MAX = 200
EXACT = 3
"""Casts in a row that must be exact."""
FAULTS = (
    "kill",
    "kill at commit",
    "kill and wait",
    "old copy",
    "empty disk",
    "partition",
    "disk full",
    "clock jump",
    "slow reader",
    "stranger",
    "stand still",
    "kill infrastructure",
)


@dataclass
class Plan:
    """What happens, drawn from a seed."""

    seed: int
    number: int
    design: str
    faults: list[tuple[str, str]]
    loss: float
    delay_s: float

    @classmethod
    def draw(cls, seed, number):
        chance = random.Random(f"{seed}/{number}")
        name = list(DESIGN_MODULES)[number % len(DESIGN_MODULES)]
        kinds = [
            FAULTS[(number // len(DESIGN_MODULES) + number) % len(FAULTS)],
            *chance.sample(FAULTS, 1),
        ]
        members = [f"n{1 + each:02d}" for each in chance.sample(range(MEMBERS), len(kinds))]
        lossy = chance.random() < 0.2
        return cls(
            seed, number, name, list(zip(kinds, members, strict=True)), 0.05 * lossy, 0.2 * lossy
        )


@dataclass
class AskedCast:
    """One cast that was asked for."""

    number: int
    publisher: str
    due: frozenset
    at: float
    cast: str | None = None


@dataclass
class Outcome:
    """What came of a schedule."""

    plan: dict
    broken: list = field(default_factory=list)
    casts: int = 0
    accepted: int = 0
    due: int = 0
    delivered: int = 0
    started_s: float = 0.0
    hurt_s: float = 0.0
    repaired_s: float = 0.0
    seconds: float = 0.0


class Run:
    """One schedule as it is carried out."""

    def __init__(self, plan, directory):
        self.plan, self.chance = plan, random.Random(f"run {plan.seed}/{plan.number}")
        made = design(plan.design)
        parameters = {**made.trial, **made.quick}
        if plan.design == "bft":
            parameters["signatures"] = "ed25519"
        if plan.design == "broker":
            parameters["brokers"] = 3
        self.local = LocalNetwork(
            directory / "net",
            plan.design,
            sample_members(MEMBERS),
            parameters,
            limits=False,
            separate_addresses=True,
        )
        self.local.create_folders()
        self.base = self.local.directory
        for kind, name in plan.faults:
            if kind == "disk full":
                hurt.small_disk(self.base / name, 1024)
        self.processes = hurt.HurtProcesses(
            self.local, hurt.Hurt(loss=plan.loss, delay_s=plan.delay_s)
        )
        self.lost_before: dict[str, float] = {}
        """When a member lost what was on its disk, or part of it."""
        self.ghosts = False
        """Does a name that is gone for good linger in the lists? Until its lease is over receipts wait for it."""
        self.killed: set[str] = set()
        self.log = directory / "casts"
        self.broken: list[str] = []

    def go(self):
        begun = time.monotonic()
        try:
            started_s = self.processes.start_all()
            memory = {name: self.processes.memory_kb(name) for name in self.processes.running}
            caster = multiprocessing.get_context("fork").Process(target=self.cast_on, daemon=True)
            caster.start()
            for kind, name in self.plan.faults:
                time.sleep(0.5)
                getattr(self, kind.replace(" ", "_"))(name)
            time.sleep(0.5)
            caster.terminate()
            caster.join()
            hurt_s = time.monotonic() - begun - started_s
            repaired_s = self.repair()
            outcome = self.judge(memory)
            outcome.started_s, outcome.hurt_s = round(started_s, 1), round(hurt_s, 1)
            outcome.repaired_s = round(repaired_s, 1)
        finally:
            self.processes.stop()
            for kind, name in self.plan.faults:
                if kind == "disk full":
                    hurt.give_back(self.base / name)
        outcome.seconds = round(time.monotonic() - begun, 1)
        return outcome

    # --- casts, made by a process of its own while things happen

    def cast_on(self):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
        with self.log.open("w", buffering=1) as log:
            for each in draw(
                self.local.members, CASTS_MAX, self.plan.seed * 1000 + self.plan.number
            ):
                told = {
                    "number": each.number,
                    "publisher": each.publisher,
                    "due": sorted(each.due),
                    "at": time.time(),
                }
                log.write(json.dumps(told) + "\n")
                with contextlib.suppress(control.ControlError, OSError, ValueError):
                    cast = cast_now(self.base / each.publisher, each.target, each.number, 0.0, 2.0)[
                        "cast"
                    ]
                    log.write(json.dumps({**told, "cast": cast}) + "\n")
                time.sleep(PACE_S)

    def told(self):
        found = {}
        for line in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                found[row["number"]] = AskedCast(
                    row["number"],
                    row["publisher"],
                    frozenset(row["due"]),
                    row["at"],
                    row.get("cast"),
                )
        return list(found.values())

    # --- faults

    def kill(self, name):
        self.processes.kill(name)
        self.again(name)

    def kill_and_wait(self, name):
        self.processes.kill(name)
        time.sleep(3.0)
        self.again(name)

    def kill_at_commit(self, name):
        """Start again with the hook in; the first notice that is committed is its last deed."""
        self.processes.kill(name)
        self.again(
            name, hurt.Hurt(dies_at_commit=True, loss=self.plan.loss, delay_s=self.plan.delay_s)
        )
        if self.processes.wait_dead(name, 5.0):
            self.again(name)
        else:
            self.kill(name)

    def old_copy(self, name):
        folder = self.base / name
        copy = folder.with_name(name + ".copy")
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("control.sock"))
        time.sleep(1.0)
        self.processes.kill(name)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        self.lost_before[name] = time.time()
        self.again(name)

    def empty_disk(self, name):
        folder = self.base / name
        self.processes.kill(name)
        for each in ("node.key", "node.pem", "node.db", "node.db-wal", "node.db-shm", "enrolment"):
            (folder / each).unlink(missing_ok=True)
        self.ghosts = True
        authority = CertificateAuthority.open(self.base / "ca")
        (folder / "node.pem").write_bytes(
            pem(authority.issue(name, own_key(folder / "node.key").public_key()))
        )
        authority.close()
        if self.plan.design == "bft":
            enrol(self.base / "ca", folder, "member")
        self.lost_before[name] = time.time()
        self.again(name)

    def partition(self, name):
        folders = [*self.local.folders(), *self.local.fixtures()]
        hosts = [address_of(read_config(folder).listen)[0] for folder in folders]
        mine = self.chance.randrange(1, MEMBERS // 2 + 1)
        hurt.cut(hosts[:mine], hosts[mine:])
        time.sleep(self.chance.uniform(1.0, 4.0))
        hurt.heal()

    def disk_full(self, name):
        hurt.fill_disk(self.base / name)
        time.sleep(2.5)
        hurt.free_disk(self.base / name)

    def clock_jump(self, name):
        self.processes.signal(name, signal.SIGUSR2)

    def slow_reader(self, name):
        self.processes.signal(name, signal.SIGUSR1)
        time.sleep(hurt.SLOW_S)

    def stand_still(self, name):
        self.processes.signal(name, signal.SIGSTOP)
        time.sleep(2.0)
        self.processes.signal(name, signal.SIGCONT)

    def stranger(self, name):
        """A certificate of another authority, none at all, and noise."""
        other = self.base.parent / f"other-{name}"
        authority = CertificateAuthority.init(other, "other")
        (other / "eve.pem").write_bytes(
            pem(authority.issue("eve", own_key(other / "eve.key").public_key()))
        )
        authority.close()
        where = address_of(read_config(self.base / name).listen)
        for number in range(30):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if number % 3 == 0:
                context.load_cert_chain(other / "eve.pem", other / "eve.key")
            with contextlib.suppress(OSError), socket.create_connection(where, 2.0) as line:
                if number % 3 == 2:
                    line.sendall(self.chance.randbytes(2000))
                    continue
                with context.wrap_socket(line) as secure:
                    secure.sendall(b"\0" * 500)
                    secure.settimeout(2.0)
                    if secure.recv(100):
                        self.broken.append("a stranger was spoken to")

    def kill_infrastructure(self, name):
        """The server, a broker, the authority; a member where there is none."""
        fixtures = [each.name for each in self.local.fixtures()]
        self.kill(self.chance.choice(fixtures) if fixtures else name)

    def again(self, name, how=None):
        said = {each.name: each.text for each in self.local.members}
        self.killed.add(name)
        if (
            name == self.local.members[0].name
        ):  # the first was told of nobody; one that comes back is
            config = read_config(self.base / name)
            config.join = [read_config(self.base / self.local.members[1].name).listen]
            write_config(self.base / name, config)
        self.processes.start(self.base / name, said.get(name), how)

    # --- afterwards

    def repair(self):
        """Seconds until casts are exact again for everybody."""
        begun = time.monotonic()
        number, exact = 1_000_000, 0
        while exact < (1 if self.plan.loss else EXACT):
            number += 1
            with contextlib.suppress(control.ControlError, OSError, StopIteration):
                publisher = self.local.members[number % MEMBERS].name
                target = self.chance.choice(("gpu | eu | us", "training", "eu & !gpu", "gpu"))
                due = [
                    each.name
                    for each in self.local.members
                    if parse(target).selects(description(each.text))
                ]
                receipt = cast_now(self.base / publisher, target, number, 4.0, 10.0)
                boxes = self.boxes()
                got = [name for name in boxes if number in boxes[name]]
                told = receipt["notified"] == len(due) or self.ghosts
                exact = exact + 1 if sorted(got) == sorted(due) and told else 0
            if time.monotonic() - begun > REPAIR_S:
                self.broken.append(f"casts are not exact {REPAIR_S:.0f} s after the last fault")
                break
            time.sleep(0.0 if exact else 0.3)
        return time.monotonic() - begun

    def boxes(self):
        found = {}
        for each in self.local.members:
            rows = control.ask(self.base / each.name, {"do": "inbox", "keep": True}, 10.0)
            found[each.name] = [json.loads(row["text"])["trial"] for row in rows]
        return found

    def receipts(self):
        found = {}
        for each in self.local.members:
            status = next(control.ask(self.base / each.name, {"do": "status"}, 10.0))
            for row in control.ask(self.base / each.name, {"do": "receipts"}, 10.0):
                found[f"{status['name']}.{row['life']}.{row['serial']}"] = row
        return found

    def judge(self, memory):
        outcome = Outcome(vars(self.plan))
        with contextlib.suppress(control.ControlError, StopIteration):
            told = self.told()
            deadline = time.monotonic() + 6.0
            while True:  # accepted casts that are still carried on may arrive yet
                boxes, receipts = self.boxes(), self.receipts()
                broken = self.laws(told, boxes, receipts)
                if not broken or time.monotonic() > deadline:
                    break
                time.sleep(0.5)
            self.broken += broken
            outcome.casts, outcome.accepted = len(told), sum(each.cast is not None for each in told)
            due = {(each.number, name) for each in told if each.cast for name in each.due}
            outcome.due = len(due)
            outcome.delivered = sum(number in boxes[name] for number, name in due)
        if not outcome.casts:
            self.broken.append("a node does not answer at the end")
        for name, before_kb in memory.items():
            if name not in self.killed and name in self.processes.running:
                grown_kb = self.processes.memory_kb(name) - before_kb
                if grown_kb > GROWTH_KB:
                    self.broken.append(f"{name} has grown by {grown_kb} KiB")
        outcome.broken = self.broken
        return outcome

    def laws(self, told, boxes, receipts):
        broken = [*self.once_and_right({each.number: each for each in told}, boxes)]
        for each in told:
            row = receipts.get(each.cast or "")
            if row is not None and "notified" in row:
                broken += self.true(each, row, boxes)
            elif row is None and each.cast and self.safe(each.publisher, each.at):
                broken.append(
                    f"cast {each.number}, accepted, is not in the outbox of {each.publisher}"
                )
        if self.plan.design == "centralised":
            broken += self.all_delivered(told, boxes)
        return broken

    def once_and_right(self, told, boxes):
        for name, numbers in boxes.items():
            if len(set(numbers)) < len(numbers):
                yield f"{name} has something twice"
            for number in set(numbers) & told.keys():
                if name not in told[number].due:
                    yield f"{name} has cast {number}, which is not for it"

    def true(self, each, row, boxes):
        """A receipt adds up, and as many have the cast as it says."""
        if (
            sum(row[count] for count in ("notified", "declined", "unreachable", "open"))
            != row["expected"]
        ):
            yield f"the receipt of cast {each.number} does not add up: {row}"
        has = sum(each.number in boxes[name] for name in each.due)
        lost = sum(not self.safe(name, each.at) for name in each.due)
        if row["notified"] > has + lost:
            yield f"cast {each.number}: {row['notified']} confirmed, {has} have it"

    def all_delivered(self, told, boxes):
        """With one server what was accepted reaches everybody, whatever happened."""
        return [
            f"cast {each.number}, accepted, did not reach {name}"
            for each in told
            if each.cast and self.safe(each.publisher, each.at)
            for name in each.due
            if each.number not in boxes[name] and self.safe(name, each.at)
        ]

    def safe(self, name, at):
        """Was nothing lost from the disk of this member since?"""
        return name not in self.lost_before or at > self.lost_before[name] + 4.0


def cast_now(folder, target, number, wait_s, timeout_s):
    payload = json.dumps({"trial": number}).encode().hex()
    request = {"do": "cast", "target": target, "payload": payload, "wait": wait_s}
    return next(control.ask(folder, request, wait_s + timeout_s))


def main(seed, number):
    hurt.prepare_namespace()
    with tempfile.TemporaryDirectory(prefix="implicast-faults-") as directory:
        outcome = Run(Plan.draw(seed, number), Path(directory)).go()
    print(json.dumps(vars(outcome)))
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
