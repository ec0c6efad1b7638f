"""With what a node's peer begins: its name, the peer itself, and how its record and its journal open."""

import secrets
from typing import TYPE_CHECKING

import msgspec

from implicast.net.errors import NodeError
from implicast.net.identity import name_of_key, own_key
from implicast.net.journal import JournalWriter, Opened
from implicast.net.record import Opening
from implicast.peer.contract import NAME_BYTES, Message, Name, Peer
from implicast.peer.site import Site
from implicast.peer.wire import size

if TYPE_CHECKING:
    from implicast.net.node import Node


def own_name(node: "Node") -> Name:
    """The digest of the node's key; where nothing needs a key, a name that was drawn once."""
    if not node.config.plain or "authority" in node.design.kept or node.parameters.get("signed"):
        return name_of_key(own_key(node.directory / "node.key").public_key())
    name = node.store.get("name")
    if name is None:
        name = secrets.token_bytes(NAME_BYTES)
        node.store.put_now("name", name)
    return name


def opening_of(node: "Node", kept: Message | None) -> Opening:
    """How a record of the node begins."""
    host = node.driver.host
    return Opening(
        node.design.name,
        node.config.role,
        node.name,
        node.incarnation,
        node.address,
        node.network,
        dict(node.config.roles),
        dict(node.parameters),
        msgspec.msgpack.encode(kept) if kept else b"",
        node.driver.seed,
        host.now_us,
        node.driver.sent_digest(),
    )


def journal_of(node: "Node") -> JournalWriter:
    """The journal of a node, opened."""
    driver, config = node.driver, node.config
    journal = JournalWriter(node.directory, node.counters, lambda: size(driver.look("holdings")))
    opening = Opened(
        driver.host.now_us,
        node.name,
        node.incarnation,
        node.address,
        config.role,
        node.design.name,
        config.network,
        dict(node.parameters),
    )
    journal.open(opening, node.said)
    return journal


def peer_of(node: "Node", kept: Message | None) -> Peer:
    """The node's peer, with what it had kept."""
    credentials = None
    if "authority" in node.design.kept:
        from implicast.net.enrolment import credentials_of

        credentials = credentials_of(node.directory, node.config.role, node.parameters)
    site = Site(
        node.name,
        node.incarnation,
        node.address,
        node.driver.host,
        node.parameters,
        node.network,
        node.config.roles,
        credentials,
        kept,
        words=node.words,
    )
    if node.config.role == "member":
        if node.design.member is None:
            raise NodeError(f"{node.design.name} cannot be run on a network yet")
        return node.design.member(site)
    if node.design.fixture is None or node.config.role not in node.design.kept:
        roles = ", ".join(role for role in node.design.kept if role != "member") or "none"
        raise NodeError(
            f"{node.design.name} has no role {node.config.role!r}; besides members it has: {roles}"
        )
    return node.design.fixture(site, node.config.role)
