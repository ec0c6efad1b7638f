"""The parts of a node by name, whichever layer they are in."""

import asyncio
from collections.abc import Mapping

from implicast.language.parameters import Setting
from implicast.language.target import Description
from implicast.net.application.driver import Driver
from implicast.net.application.events import PeerEvents
from implicast.net.application.inbox import Payloads
from implicast.net.application.layer import ApplicationLayer
from implicast.net.application.subscriptions import NodeSubscriptions
from implicast.net.identity.credentials import Credentials
from implicast.net.identity.layer import IdentityLayer
from implicast.net.identity.revocation import Revocations
from implicast.net.settings import NodeSettings
from implicast.net.storage.layer import StorageLayer
from implicast.net.storage.store import Store
from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.layer import TransportLayer
from implicast.net.transport.services import Services
from implicast.peer.contract import Incarnation, Peer
from implicast.peer.events import Refused
from implicast.peer.signing import Signing


class NodeParts:
    """The layers of a node, and their parts."""

    settings: NodeSettings
    storage: StorageLayer
    transport: TransportLayer
    identity: IdentityLayer
    application: ApplicationLayer

    @property
    def network(self) -> bytes:
        return self.settings.network

    @property
    def digest(self) -> bytes:
        """Digest of all on which two nodes must agree."""
        return self.settings.digest

    @property
    def parameters(self) -> Mapping[str, Setting]:
        return self.settings.parameters

    @property
    def signing(self) -> Signing:
        return self.identity.signing

    @property
    def store(self) -> Store:
        return self.storage.store

    @property
    def counters(self) -> Counters:
        return self.transport.counters

    @property
    def clock(self) -> Clock:
        return self.transport.clock

    @property
    def pool(self) -> ConnectionPool:
        return self.transport.pool

    @property
    def services(self) -> Services:
        return self.transport.services

    @property
    def revocations(self) -> Revocations:
        return self.identity.revocations

    @property
    def credentials(self) -> Credentials | None:
        return self.identity.credentials

    @property
    def incarnation(self) -> Incarnation:
        return self.identity.own.incarnation

    @property
    def driver(self) -> Driver:
        return self.application.driver

    @property
    def peer(self) -> Peer:
        return self.application.peer

    @property
    def events(self) -> PeerEvents:
        return self.application.events

    @property
    def payloads(self) -> Payloads:
        return self.application.payloads

    @property
    def subscriptions(self) -> NodeSubscriptions:
        return self.application.subscriptions

    @property
    def description(self) -> Description | None:
        return self.application.membership.description

    @property
    def joined(self) -> asyncio.Event:
        return self.events.joined

    @property
    def left(self) -> asyncio.Event:
        return self.events.left

    @property
    def registered(self) -> asyncio.Event:
        """Set once every later cast that selects this node's description reaches this node."""
        return self.events.registered

    @property
    def refused(self) -> list[Refused]:
        """The most recent requests that the network refused."""
        return self.events.refused
