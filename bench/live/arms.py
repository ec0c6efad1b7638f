"""The arms of the comparison: a rival with members in processes, Serf with its agents, and our own
networks.
"""

import json
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from counting import ByAddress, all_bytes, by_process
from members import Member
from task import PlannedCast, Result, Task, due_of, tags

from implicast import __version__
from implicast.language.parse import parse
from implicast.net.commands import control, live_check
from implicast.net.commands.local import LocalNetwork, NodeProcesses

PACE_S = 0.05
"""Between two casts."""
IDLE_S = 5.0
SETTLE_S = 2.0
Heard = dict[tuple[int, str], float]
"""By cast and member, milliseconds until it was told."""


def idle_bytes_per_s() -> float:
    """What is said when nothing is cast, once it has come to rest: systems still greet each other
    after a start.
    """
    last = float("inf")
    for _ in range(8):
        before = all_bytes()
        time.sleep(IDLE_S)
        now = (all_bytes() - before) / IDLE_S
        if now > 0.8 * last or now < 1000:
            return now
        last = now
    return last


class Metered:
    """Bytes of a stretch of casts, less what the system says when nothing is cast."""

    def __init__(self, idle_per_s: float) -> None:
        self._idle, self._begun, self._bytes = idle_per_s, time.monotonic(), all_bytes()

    def per_cast(self, casts: int) -> float:
        return (
            max(0.0, all_bytes() - self._bytes - self._idle * (time.monotonic() - self._begun))
            / casts
        )


def rival(arm: Any, home: Path, given: Task) -> Result:
    """A rival whose members are processes of ours."""
    server = arm.start(home)
    members: dict[str, Member] = {}
    try:
        for number, someone in enumerate(given.people):
            members[someone.name] = Member(number, someone, arm.join())
        for member in members.values():
            member.wait()
        time.sleep(SETTLE_S)
        result = Result(arm.name, arm.version(home), arm.settings)
        result.idle_bytes_per_s = idle_bytes_per_s()
        before, metered = by_process(), Metered(result.idle_bytes_per_s)
        _cast(members, given.casts)
        result.bytes_per_cast = metered.per_cast(len(given.casts))
        bytes_by = by_process() - before
        pids = [each.process.pid or 0 for each in members.values()] + (
            [server.pid] if server is not None else []
        )
        result.bytes_by = [bytes_by[pid] for pid in pids]
        _judge(result, given.casts, members)
        for name in given.killed:
            members.pop(name).kill()
        _cast(members, given.after)
        heard = _heard(members)
        due = due_of(given.after, given.killed)
        result.due_after, result.delivered_after = len(due), len(due & heard.keys())
        return result
    finally:
        for member in members.values():
            member.kill()
        if server is not None:
            server.kill()
            server.wait()


def _cast(members: dict[str, Member], casts: list[PlannedCast]) -> None:
    for each in casts:
        members[each.publisher].cast(each)
        time.sleep(PACE_S)
    time.sleep(SETTLE_S)


def _heard(members: dict[str, Member], result: Result | None = None) -> Heard:
    found = {}
    for name, member in members.items():
        report = member.report()
        found.update({(number, name): wait_ms for number, wait_ms in report["heard"].items()})
        if result is not None:
            result.reached += report["reached"]
    return found


def _judge(result: Result, casts: list[PlannedCast], members: dict[str, Member]) -> None:
    heard, due = _heard(members, result), due_of(casts)
    result.due, result.delivered, result.wrong = (
        len(due),
        len(due & heard.keys()),
        len(heard.keys() - due),
    )
    result.latency_ms = sorted(heard.values())


def serf(home: Path, given: Task) -> Result:
    """Agents with a tag for each of theirs; a cast is a query for each alternative, with a filter
    on tags.
    """
    binary = str(home / "root/usr/bin/serf")
    version = subprocess.run(
        [binary, "version"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    result = Result(
        "Serf",
        version,
        "a query with -tag filters per alternative; profile local; acknowledged; latency "
        "until the acknowledgement is back",
    )
    where = {someone.name: f"127.0.1.{number + 1}" for number, someone in enumerate(given.people)}
    counting = ByAddress()
    counting.start()
    agents = {}
    try:
        for number, someone in enumerate(given.people):
            words = [
                binary,
                "agent",
                "-node",
                someone.name,
                "-bind",
                where[someone.name],
                "-profile",
                "local",
                "-rpc-addr",
                f"{where[someone.name]}:7373",
                "-log-level",
                "err",
            ]
            words += [word for tag in tags(someone) for word in ("-tag", f"{tag}=1")]
            words += ["-join", "127.0.1.1"] if number else []
            agents[someone.name] = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(0.05)
        time.sleep(10)
        result.idle_bytes_per_s = idle_bytes_per_s()
        before, metered = dict(counting.counts), Metered(result.idle_bytes_per_s)
        heard = _query_all(binary, where, given.casts, result)
        result.bytes_per_cast = metered.per_cast(len(given.casts))
        result.bytes_by = [counting.counts[each] - before.get(each, 0) for each in where.values()]
        due = due_of(given.casts)
        result.due, result.delivered, result.wrong = (
            len(due),
            len(due & heard.keys()),
            len(heard.keys() - due),
        )
        result.latency_ms = sorted(heard.values())
        for name in given.killed:
            agents.pop(name).kill()
        heard = _query_all(binary, where, given.after, None)
        due = due_of(given.after, given.killed)
        result.due_after, result.delivered_after = len(due), len(due & heard.keys())
        result.note = "`!` cannot be said in a filter: those count as wrong"
        return result
    finally:
        for agent in agents.values():
            agent.kill()
            agent.wait()


def _query_all(
    binary: str, where: dict[str, str], casts: list[PlannedCast], result: Result | None
) -> Heard:
    found: Heard = {}
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda one: _query(binary, where[one.publisher], one), casts)
        for each, heard in zip(casts, answers, strict=True):
            found.update({(each.number, name): wait_ms for name, wait_ms in heard.items()})
            if result is not None:  # gossip brings a query to all, whoever the filter selects
                result.reached += len(where) * len(parse(each.target).terms) - len(heard)
    return found


def _query(binary: str, rpc: str, drawn: PlannedCast) -> dict[str, float]:
    heard: dict[str, float] = {}
    for term in parse(drawn.target).terms:
        words = [binary, "query", "-rpc-addr", f"{rpc}:7373", "-timeout", "2s"]
        words += [word for tag in term.has for word in ("-tag", f"{tag}=1")]
        words += ["cast", json.dumps({"n": drawn.number, "t": drawn.target}) + "." * 64]
        begun = time.monotonic()
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            if "Ack from" in line:
                name = line.split("'")[1]
                heard.setdefault(name, (time.monotonic() - begun) * 1000)
        process.wait()
    return heard


def ours(design: str, plain: bool, home: Path, given: Task) -> Result:
    """One of our networks, a process for each node, with an inbox on disk and receipts."""
    how = "plain TCP" if plain else "TLS 1.3"
    result = Result(
        f"implicast {design}{' plain' if plain else ''}",
        __version__,
        f"{how}, an inbox on disk, committed before it is confirmed; receipts",
    )
    with tempfile.TemporaryDirectory(prefix="implicast-compare-") as directory:
        local = LocalNetwork(Path(directory) / "net", design, given.people, {}, plain, limits=False)
        local.create_folders()
        processes = NodeProcesses(local)
        try:
            processes.start_all()
            time.sleep(SETTLE_S)
            _warm(local, given)
            result.idle_bytes_per_s = idle_bytes_per_s()
            before, metered = by_process(), Metered(result.idle_bytes_per_s)
            receipts = _paced(local, given.casts)
            time.sleep(SETTLE_S)
            result.bytes_per_cast = metered.per_cast(len(given.casts))
            bytes_by = by_process() - before
            result.bytes_by = [bytes_by[each.pid or 0] for each in processes.running.values()]
            _judge_ours(result, local, given, receipts)
            for name in given.killed:
                processes.kill(name)
            _paced(local, given.after, 10_000)
            time.sleep(SETTLE_S)
            due = {(number + 10_000, name) for number, name in due_of(given.after, given.killed)}
            alive = [each.name for each in given.people if each.name not in given.killed]
            result.due_after, result.delivered_after = (
                len(due),
                len(due & _inboxes(local, alive).keys()),
            )
            return result
        finally:
            processes.stop()


def _warm(local: LocalNetwork, given: Task) -> None:
    """Connections are there, as those of the rivals are: some casts that are not counted."""
    for each in Random(1).sample(given.casts, 20):
        _one(local, each, 1_000_000)


def _paced(local: LocalNetwork, casts: list[PlannedCast], above: int = 0) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(32) as pool:
        waiting = []
        for each in casts:
            waiting.append(pool.submit(_one, local, each, above))
            time.sleep(PACE_S)
        return [each.result() for each in waiting]


def _one(local: LocalNetwork, drawn: PlannedCast, above: int) -> dict[str, Any]:
    text = json.dumps({"trial": drawn.number + above}) + "." * 64
    request = {"do": "cast", "target": drawn.target, "payload": text.encode().hex(), "wait": 10.0}
    return next(control.ask(local.directory / drawn.publisher, request, 60))


def _inboxes(local: LocalNetwork, names: list[str]) -> dict[tuple[int, str], int]:
    found = {}
    for name in names:
        for note in control.ask(local.directory / name, {"do": "inbox", "keep": True}):
            found[json.loads(note["text"].rstrip("."))["trial"], name] = note["arrived_us"]
    return found


def _judge_ours(
    result: Result, local: LocalNetwork, given: Task, receipts: list[dict[str, Any]]
) -> None:
    heard = {
        key: at
        for key, at in _inboxes(local, [each.name for each in given.people]).items()
        if key[0] < 10_000
    }
    made = live_check.casts_made_us(local.directory, given.people)
    at_us = {}
    for each, receipt in zip(given.casts, receipts, strict=True):
        _, incarnation, serial = receipt["cast"].split(".")
        at_us[each.number] = made.get((each.publisher, int(incarnation), int(serial)), 0)
    due = due_of(given.casts)
    result.due, result.delivered, result.wrong = (
        len(due),
        len(due & heard.keys()),
        len(heard.keys() - due),
    )
    result.latency_ms = sorted(
        (at - at_us[number]) / 1000 for (number, _), at in heard.items() if at_us.get(number)
    )
    exact = sum(
        receipt["complete"] and receipt["notified"] == len(each.due)
        for each, receipt in zip(given.casts, receipts, strict=True)
    )
    result.note = f"{exact} of {len(receipts)} receipts exact"
