"""The application layer of one node: its peer, and all that applications use."""

import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from implicast.language.target import Description
from implicast.net.application.driver import Driver
from implicast.net.application.events import Deliveries, PeerEvents, Receipts
from implicast.net.application.inbox import Arrivals, InboxReader, Payloads
from implicast.net.application.membership import Admission, NodeMembership
from implicast.net.application.outbox import CastLimits, Outbox
from implicast.net.application.peers import credentials_for, peer_of
from implicast.net.application.record import Recorder, header_of
from implicast.net.application.redelivery import Redelivery
from implicast.net.application.subscriptions import NodeSubscriptions
from implicast.net.application.transfer import Transfers
from implicast.net.identity.layer import IdentityLayer
from implicast.net.observation.cast_meter import CastMeter
from implicast.net.observation.journal import JournalWriter, OpenedRow
from implicast.net.settings import NodeSettings
from implicast.net.storage.durable_state import StateWriter
from implicast.net.storage.layer import StorageLayer
from implicast.net.transport.layer import TransportLayer
from implicast.peer.contract import Address, CastId, Contact, Message, Name
from implicast.peer.events import IncarnationAdvanced
from implicast.peer.site import Site
from implicast.peer.wire import size

Spawn = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine until the node stops."""


class ApplicationLayer:
    """Builds the peer from its durable state, and the parts that work with it."""

    def __init__(
        self,
        settings: NodeSettings,
        storage: StorageLayer,
        transport: TransportLayer,
        identity: IdentityLayer,
        address: Address,
        spawn: Spawn,
    ) -> None:
        self._settings, self._storage, self._identity = settings, storage, identity
        self._transport, self._spawn = transport, spawn
        store, pool, config = storage.store, transport.pool, settings.config
        state: Any = storage.states.read()
        described = state.member.description if state is not None and settings.is_member else None
        self.driver = Driver(
            address,
            settings.codec,
            transport.counters,
            secrets.randbits(64),
            config.role,
            transport.clock,
            pool,
        )
        self.driver.tick()
        self.events = PeerEvents()
        self.receipts = Receipts(self.events, store)
        self.arrivals = Arrivals()
        store.after_commit = self.arrivals.wake
        contact = Contact(identity.own.name, address)
        transfers = Transfers(
            storage.blobs, transport.services, lambda: contact, self.arrivals.wake
        )
        self.payloads = Payloads(
            storage.blobs, transfers, store, self.receipts, pool, config, spawn
        )
        self.state = StateWriter(storage.states, store, self.driver, pool.neighbours)
        limits = CastLimits(config.casts_per_s, config.casts_burst, settings.schema)
        self.meter = CastMeter()
        self.outbox = Outbox(
            identity.own,
            self.driver,
            store,
            self.state,
            self.payloads,
            self.events,
            self.receipts,
            limits,
            self.meter,
        )
        self.membership = NodeMembership(
            self.driver,
            self.state,
            self.events,
            Admission(identity.own, transport.clock, identity.revocations, pool),
            self.outbox,
            settings.schema,
            spawn,
            described,
        )
        self.subscriptions = NodeSubscriptions(
            self.driver, store, self.state, self.events, self.receipts, settings.schema
        )
        self.redelivery = Redelivery(transport.services, pool, self.outbox, spawn)
        self.inbox = InboxReader(store, self.payloads, self.arrivals, self.done)
        self._site = self._site_of(state, address)
        self.peer = peer_of(settings.design, config.role, self._site)

    def _site_of(self, state: Any, address: Address) -> Site:
        settings, own, host = self._settings, self._identity.own, self.driver.host
        config = settings.config
        return Site(
            own.name,
            own.incarnation,
            address,
            host,
            settings.parameters,
            settings.network,
            config.roles,
            credentials_for(settings.design, settings.directory, config.role, settings.parameters),
            state,
            signing=self._identity.sign_with(host, address),
        )

    # --- start

    def run(self, record: Path | None) -> None:
        """Pass all inputs to the peer from now on. `record`: the file to which they are written."""
        pool = self._transport.pool
        if record is not None:
            self._start_record(record)
        if self._settings.config.journal:
            self._start_journal(self.membership.description)
        deliveries = Deliveries(
            self.driver,
            self._storage.store,
            self._transport.counters,
            self.payloads.noticed,
            (
                self.events.on_event,
                self.subscriptions.on_event,
                self.meter.on_event,
                self._on_event,
            ),
        )
        pool.handle(self.driver.receive)
        self.driver.run(self.peer, deliveries.commit_events)
        self.expel_from_overlay(pool.banned)
        if self.driver.commit_first:
            self._storage.store.before_commit = self.state.write
        self.payloads.resume()
        losses = self._storage.store.losses
        if losses and self._settings.is_member:
            self._spawn(self.redelivery.ask(losses, self.events.joined))

    def _start_record(self, path: Path) -> None:
        settings, driver = self._settings, self.driver
        driver.recorder = Recorder(path)
        header = header_of(
            settings.design.name,
            settings.config.role,
            self._site,
            settings.config.roles,
            driver.seed,
            driver.sent_digest(),
        )
        driver.recorder.write(header)

    def _start_journal(self, described: Description | None) -> None:
        settings, driver, own = self._settings, self.driver, self._identity.own
        driver.journal = JournalWriter(
            settings.directory, driver.counters, lambda: size(driver.read_peer("holdings"))
        )
        opening = OpenedRow(
            driver.host.now_us,
            own.name,
            own.incarnation,
            driver.address,
            settings.config.role,
            settings.design.name,
            settings.config.network,
            dict(settings.parameters),
        )
        driver.journal.open(opening, described)

    # --- while it runs

    def _on_event(self, event: Message) -> None:
        if isinstance(event, IncarnationAdvanced):
            self._identity.own.advance(event.incarnation)

    def expel_from_overlay(self, names: set[Name]) -> None:
        """Expel revoked names from the overlay, if this node runs the overlay's authority peer: the
        peer assigns them no positions and announces the expulsion to its members.
        """
        if self._settings.config.role == "authority":
            for name in sorted(names):
                self.driver.call("expel", name)

    async def done(self, cast: CastId) -> None:
        """Mark a message of the inbox as done."""
        self._storage.store.done(cast, self.driver.tick())
        await self._storage.store.committed()

    def close(self, write_journal: bool) -> None:
        """Stop the peer and close record and journal."""
        self.driver.stop()
        if self.driver.recorder is not None:
            self.driver.recorder.close()
        if self.driver.journal is not None and write_journal:
            self.driver.journal.close()

    def status(self) -> dict[str, Any]:
        described, fetching = self.membership.description, self.payloads.transfers.progress
        return {
            "joined": self.events.joined.is_set() or not self._settings.is_member,
            "registered": self.events.registered.is_set(),
            "description": None if described is None else str(described),
            "fetching": [f"{done} of {of} chunks" for done, of in fetching.values()],
            "casts": self.meter.status(),
            "counters": {**self.driver.counters.shown(), "strays": self.peer.strays},
        }
