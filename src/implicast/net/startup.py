"""Builds the parts of a node at startup: name, peer, header of the record, journal."""

import secrets
from typing import TYPE_CHECKING

import msgspec

from implicast.net.errors import NodeError
from implicast.net.identity import name_of_key, own_key
from implicast.net.journal import JournalWriter, OpenedRow
from implicast.net.record import RecordHeader
from implicast.peer.contract import NAME_BYTES, Message, Name, Peer
from implicast.peer.site import Site
from implicast.peer.wire import size

if TYPE_CHECKING:
    from implicast.net.node import Node


def own_name(node: "Node") -> Name:
    """The digest of the node's public key. If neither TLS nor signing needs a key, a random name
    that is stored in the node's database.
    """
    if (
        not node.config.plain
        or "authority" in node.design.durable_types
        or node.parameters.get("signed")
    ):
        return name_of_key(own_key(node.directory / "node.key").public_key())
    name = node.store.get("name")
    if name is None:
        name = secrets.token_bytes(NAME_BYTES)
        node.store.put_now("name", name)
    return name


def header_of(node: "Node", state: Message | None) -> RecordHeader:
    """The header of a record of this node."""
    host = node.driver.host
    return RecordHeader(
        node.design.name,
        node.config.role,
        node.name,
        node.incarnation,
        node.address,
        node.network,
        dict(node.config.roles),
        dict(node.parameters),
        msgspec.msgpack.encode(state) if state else b"",
        node.driver.seed,
        host.now_us,
        node.driver.sent_digest(),
    )


def journal_of(node: "Node") -> JournalWriter:
    """Open the node's journal."""
    driver, config = node.driver, node.config
    journal = JournalWriter(
        node.directory, node.counters, lambda: size(driver.read_peer("holdings"))
    )
    header = OpenedRow(
        driver.host.now_us,
        node.name,
        node.incarnation,
        node.address,
        config.role,
        node.design.name,
        config.network,
        dict(node.parameters),
    )
    journal.open(header, node.description)
    return journal


def peer_of(node: "Node", state: Message | None) -> Peer:
    """Build the node's peer and restore its durable state."""
    credentials = None
    if "authority" in node.design.durable_types:
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
        state,
        signing=node.signing,
    )
    if node.config.role == "member":
        if node.design.member is None:
            raise NodeError(f"{node.design.name} does not run on a network yet")
        return node.design.member(site)
    if node.design.fixture is None or node.config.role not in node.design.durable_types:
        roles = ", ".join(role for role in node.design.durable_types if role != "member") or "none"
        raise NodeError(
            f"{node.design.name} has no role {node.config.role!r}; besides member it has: {roles}"
        )
    return node.design.fixture(site, node.config.role)
