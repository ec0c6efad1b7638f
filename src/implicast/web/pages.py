"""Pages of nodes, for the commands: loaded when they are asked for, since few nodes have one."""

import contextlib
import secrets
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import click

from implicast.net.commands.local import MemberSpec, Page, no_page
from implicast.net.config import read_config
from implicast.net.node import Node
from implicast.peer.errors import LocalError


class PageError(LocalError):
    """There can be no page; the text says why."""


def _served() -> "type":
    """What serves a page, or a sentence on how to get it."""
    try:
        from implicast.web.app import Served
    except ImportError as error:
        raise PageError(
            f"the page needs more than is installed ({error.name}): pip install 'implicast[web]'"
        ) from None
    return Served


def page_of(directory: Path, port: int) -> Page:
    """The page of one node, whose address is printed."""
    if read_config(directory).role != "member":
        raise PageError(f"{directory} is no member: only members have a page")
    served = _served()

    @contextlib.asynccontextmanager
    async def page(node: Node) -> AsyncIterator[object]:
        async with served(node, port, directory.resolve().name) as address:
            click.echo(address)
            yield address

    return page


class Pages:
    """The pages of all members of a local network: one token, a port each."""

    def __init__(
        self, members: Sequence[MemberSpec], port: int, labels: Mapping[str, str] | None = None
    ) -> None:
        """From this port on; 0: at ports that are free. `labels`: what members call themselves at
        first.
        """
        if port + len(members) > 1 << 16:
            raise PageError(f"{len(members)} pages from port {port} on go beyond the last port")
        self._served = _served()
        ports = (
            [port + number for number in range(len(members))]
            if port
            else self._reserved(len(members))
        )
        self._ports = {each.name: number for each, number in zip(members, ports, strict=True)}
        self._token = secrets.token_urlsafe(24)
        self._labels = labels or {}
        self._open: dict[str, Any] = {}

    def _reserved(self, count: int) -> list[int]:
        """Free ports that stay ours: until the last page is served nodes open many connections, and
        one of them could be given such a port. On Linux a port that is bound and not listened at
        can be bound once more, by the page.
        """
        held = contextlib.ExitStack()
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        ports = [int(each.getsockname()[1]) for each in sockets]
        if sys.platform == "linux":
            weakref.finalize(self, held.close)
        else:
            held.close()
        return ports

    def __call__(self, node: Node) -> AbstractAsyncContextManager[object]:
        name = node.directory.name
        if name not in self._ports:
            return no_page(node)
        self._open[name] = self._served(
            node, self._ports[name], self._labels.get(name, name), self._token
        )
        page: AbstractAsyncContextManager[object] = self._open[name]
        return page

    def __contains__(self, name: str) -> bool:
        return name in self._ports

    def desk(self, name: str) -> Any:
        """The desk of a member whose page is served by this process."""
        return self._open[name].desk

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}/?token={self._token}"

    def welcome(self) -> str:
        first, *others = self._ports
        said = f"The page of {first}: {self.address(first)}"
        if others:
            last = others[-1]
            said += (
                f"\nThe others have theirs with the same token: {others[0]} at port {self._ports[others[0]]} "
                f"to {last} at port {self._ports[last]}."
            )
        return said
