"""The control socket of a running node: lines of JSON over a Unix socket that only its owner may
open. The command line uses it.

A request is one line, `{"do": "cast", "target": "gpu & eu", ...}`. Each answer is one line; the
last one has `"end": true`.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from implicast.net.identity.revocation import read_list
from implicast.net.node import InboxMessage, Node
from implicast.net.storage.files import FILE_MODE
from implicast.peer.contract import CastId
from implicast.peer.errors import ImplicastError, LocalError

LINE_MAX = 1 << 20
RECEIPTS_MAX = 100
"""Receipts that are shown unless the request has a limit; the newest ones."""
SOCKET = "control.sock"
OPEN_FILES = Path("/proc/self/fd")
PATH_MAX = 103
"""Longest path of a socket in bytes that every Unix allows (Linux: 107)."""
Answer = dict[str, Any]


class ControlError(LocalError):
    """The node does not answer or refuses the request; the text says why."""


class StoppedError(ControlError):
    """The node stopped during the request; it may come back."""


async def serve(node: Node) -> asyncio.Server:
    """Serve requests at the node's socket."""
    path = node.directory / SOCKET
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        with socket_name(path) as name:
            listener.bind(name)
            os.chmod(name, FILE_MODE)  # before `listen`: no client is connected
        return await asyncio.start_unix_server(
            lambda r, w: _attend(node, r, w), sock=listener, limit=LINE_MAX
        )
    except BaseException:
        listener.close()
        raise


@contextlib.contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """The name under which a socket is opened. A path longer than `PATH_MAX` is reached through a
    descriptor of its folder.
    """
    if len(os.fsencode(path)) <= PATH_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _by_folder(folder, path)
    finally:
        os.close(folder)


def _by_folder(folder: int, path: Path) -> str:
    reached = OPEN_FILES / str(folder)
    if not reached.exists():
        raise ControlError(
            f"{path} is longer than the {PATH_MAX} bytes that a socket's path may have on this "
            "system: give the node a folder with a shorter name"
        )
    return str(reached / path.name)


async def _attend(node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        line = await reader.readline()
        async for answer in _answers(node, line):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
    except (
        ConnectionError,
        asyncio.LimitOverrunError,
        ValueError,
        asyncio.CancelledError,
    ):  # the client disconnected or sent too long a line, or the node stops
        pass
    finally:
        writer.close()


async def _answers(node: Node, line: bytes) -> AsyncIterator[Answer]:
    try:
        request = json.loads(line)
        verb = _VERBS.get(request.get("do"))
        if verb is None:
            raise ControlError(
                f"unknown request {request.get('do')!r}; known requests: {', '.join(_VERBS)}"
            )
        async for answer in verb(node, request):
            yield answer
        yield {"end": True}
    except ImplicastError as error:
        yield {"error": str(error), "end": True}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield {"error": f"invalid request: {error!r}", "end": True}


async def _cast(node: Node, request: Answer) -> AsyncIterator[Answer]:
    wait, target = float(request.get("wait", 5)), str(request["target"])
    payload, name = bytes.fromhex(request.get("payload", "")), str(request.get("name", ""))
    if "file" in request:
        payload = await asyncio.to_thread(
            _read_file, Path(request["file"]), node.config.payload_max
        )
    deadline = asyncio.get_running_loop().time() + wait
    expires_s = float(request["expires_s"]) if "expires_s" in request else None
    verified = bool(request.get("verified", False))
    receipt = await node.cast(target, payload, wait, name, verified, expires_s)
    async for each in _fetched(node, receipt.cast, deadline):
        yield {"fetched": each}
    yield node.receipt(receipt.cast).described()


def _read_file(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            payload = file.read(most + 1)
    except OSError as error:
        raise ControlError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(payload) > most:
        raise ControlError(f"{path} has more than the {most:,} bytes that this node sends")
    return payload


async def _fetched(node: Node, cast: CastId, deadline: float) -> AsyncIterator[dict[str, int]]:
    """How many receivers have the complete large payload, at each change, until all have it or the
    deadline passes.
    """
    last: dict[str, int] | None = None
    while (now := node.payloads.fetched(cast)) is not None:
        if now != last:
            last = now
            yield now
        if now["have"] >= now["expected"] or asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(0.1)


async def _describe(node: Node, request: Answer) -> AsyncIterator[Answer]:
    await node.describe(str(request["text"]))
    yield {"description": str(node.description)}


async def _inbox(node: Node, request: Answer) -> AsyncIterator[Answer]:
    limit, sender = int(request.get("limit") or 0), str(request.get("from") or "")
    since_us, given = _since_us(request), 0
    async for note in node.inbox(follow=bool(request.get("follow"))):
        if note.arrived_us < since_us or not note.cast.publisher.hex().startswith(sender):
            continue
        yield _inbox_answer(note)
        given += 1
        if not request.get("keep"):
            await note.done()
        if given == limit:
            return


def _since_us(request: Answer) -> int:
    """The time of the request's filter `since_s`, in microseconds since 1970."""
    since_s = request.get("since_s")
    return 0 if since_s is None else time.time_ns() // 1000 - int(float(since_s) * 1e6)


def _inbox_answer(note: InboxMessage) -> Answer:
    text: str | None
    large = note.path is not None
    try:
        text = None if large else note.payload.decode()
    except UnicodeDecodeError:
        text = None
    cast = f"{note.cast.publisher.hex()}.{note.cast.incarnation}.{note.cast.serial}"
    payload = "" if large else note.payload.hex()
    return {
        "cast": cast,
        "publisher": note.cast.publisher.hex(),
        "text": text,
        "payload": payload,
        "arrived_us": note.arrived_us,
        "bytes": len(note.payload),
        "name": note.name,
        "file": str(note.path) if note.path is not None else None,
    }


async def _status(node: Node, request: Answer) -> AsyncIterator[Answer]:
    yield node.status()


async def _peers(node: Node, request: Answer) -> AsyncIterator[Answer]:
    for each in node.peers():
        yield each


async def _receipts(node: Node, request: Answer) -> AsyncIterator[Answer]:
    limit, open_only, since_us = request.get("limit"), request.get("open"), _since_us(request)
    rows = node.store.receipts(int(limit or RECEIPTS_MAX), since_us, bool(open_only))
    for incarnation, serial, target, made_us, written in rows:
        settled = node.events.receipts.get(CastId(node.name, incarnation, serial)) or written
        counts = (
            {}
            if settled is None
            else {
                each: getattr(settled, each)
                for each in (
                    "expected",
                    "notified",
                    "declined",
                    "unreachable",
                    "open",
                    "uncertain",
                )
            }
        )
        yield {
            "life": incarnation,
            "serial": serial,
            "target": str(target),
            "made_us": made_us,
            **counts,
        }


async def _revoked(node: Node, request: Answer) -> AsyncIterator[Answer]:
    news = node.revocations.accept(read_list(bytes.fromhex(request["list"])))
    yield {"number": node.revocations.number, "news": news}


async def _estimate(node: Node, request: Answer) -> AsyncIterator[Answer]:
    found = await node.estimate(str(request["target"]))
    yield {
        "members": None if found is None else found.members,
        "messages": None if found is None else found.messages,
    }


async def _subscribe(node: Node, request: Answer) -> AsyncIterator[Answer]:
    number = await node.subscribe(str(request["target"]))
    yield {"number": number, "target": str(request["target"])}


async def _unsubscribe(node: Node, request: Answer) -> AsyncIterator[Answer]:
    await node.unsubscribe(int(request["number"]))
    yield {"number": int(request["number"])}


async def _subscriptions(node: Node, request: Answer) -> AsyncIterator[Answer]:
    for number, target in node.subscriptions.all().items():
        yield {"number": number, "target": target}


async def _publish(node: Node, request: Answer) -> AsyncIterator[Answer]:
    payload, wait = bytes.fromhex(request["payload"]), float(request.get("wait", 5))
    receipt = await node.publish(str(request["description"]), payload, wait)
    yield receipt.described()


async def _acknowledge(node: Node, request: Answer) -> AsyncIterator[Answer]:
    yield {"acknowledged": node.store.acknowledge_losses()}


async def _leave(node: Node, request: Answer) -> AsyncIterator[Answer]:
    await node.leave()
    yield {"left": True}


_VERBS: dict[str, Callable[[Node, Answer], AsyncIterator[Answer]]] = {
    "cast": _cast,
    "describe": _describe,
    "inbox": _inbox,
    "status": _status,
    "peers": _peers,
    "receipts": _receipts,
    "estimate": _estimate,
    "leave": _leave,
    "acknowledge": _acknowledge,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "subscriptions": _subscriptions,
    "publish": _publish,
    "revoked": _revoked,
}


def ask(directory: Path, request: Answer, timeout_s: float | None = 60.0) -> Iterator[Answer]:
    """Send a request to a running node and yield its answers. Raises `ControlError` if the node
    refuses or does not answer.
    """
    path = directory / SOCKET
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(timeout_s)
        try:
            with socket_name(path) as name:
                line.connect(name)
        except (OSError, ValueError):
            raise ControlError(
                f"no node is running in {directory}: start one with `implicast local 20`, or with "
                f"`implicast node {directory}`"
            ) from None
        try:
            line.sendall(json.dumps(request).encode() + b"\n")
            yield from _read(line, directory)
        except TimeoutError:
            raise ControlError(
                f"the node in {directory} did not answer within {timeout_s:g} s"
            ) from None
        except ConnectionError:
            raise StoppedError(f"the node in {directory} stopped during the request") from None


def _line(answers: BinaryIO, directory: Path) -> bytes:
    try:
        return answers.readline()
    except TimeoutError:
        raise ControlError(f"the node in {directory} did not answer in time") from None


def _read(line: socket.socket, directory: Path) -> Iterator[Answer]:
    with line.makefile("rb") as answers:
        while each := _line(answers, directory):
            answer = json.loads(each)
            if "error" in answer:
                raise ControlError(answer["error"])
            if answer.get("end"):
                return
            yield answer
    raise StoppedError(f"the node in {directory} stopped before the end of its answer")


def wait_until_up(directory: Path) -> None:
    """Wait until a stopped node answers again."""
    while True:
        with contextlib.suppress(ControlError):
            next(ask(directory, {"do": "status"}, 5.0))
            return
        time.sleep(0.5)
