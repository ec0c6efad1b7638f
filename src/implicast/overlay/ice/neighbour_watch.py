"""Watch over the neighbours: at each tick the heartbeats that are due, and peers that fell silent."""

from collections.abc import Iterable

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.members import NEVER_US, Members
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.overlay.ice.takeover import Takeover
from implicast.peer.contract import Address


class Unwatched:
    """Form for surfaces without failure detection."""

    __slots__ = ()
    is_periodic = False
    """True if the peer ticks also while nothing is pending."""

    def check(self) -> bool:
        """At each tick; true if a neighbour is silent, suspect or of outdated state."""
        return False


class NeighbourWatch(Unwatched):
    """Sends the heartbeats that are due, suspects silent peers and probes lost ones."""

    __slots__ = (
        "_address",
        "_backup_set",
        "_checked",
        "_exchange",
        "_host",
        "_members",
        "_ownership",
        "_takeover",
        "_timers",
    )
    is_periodic = True

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        takeover: Takeover,
    ) -> None:
        self._address, self._host, self._timers = site.address, site.host, site.settings.timers
        self._ownership, self._members, self._backup_set = ownership, members, backup_set
        self._exchange, self._takeover = exchange, takeover
        self._checked: tuple[list[Address], tuple[Address, ...]] = ([], ())
        """Neighbours and backups at the last check. `Members.check_us` is valid for these."""

    def check(self) -> bool:
        troubled = self._check_neighbours()
        self._backup_set.choose_backups()
        self._takeover.check_silent(troubled)
        self._probe_lost()
        return troubled

    def _check_neighbours(self) -> bool:
        """Send the heartbeats that are due, also to backups that have not acked for a period. About
        two ticks in five end at the first test.
        """
        members, now_us = self._members, self._host.now_us
        near, backups = self._ownership.neighbours(), self._backup_set.backups
        if now_us < members.check_us and self._checked[0] is near and self._checked[1] is backups:
            return False
        self._checked = (near, backups)
        members.begin_check()
        due, troubled = self._scan(near, now_us)
        heartbeat_us, known = self._timers.heartbeat_us, members.states
        for backup in backups:
            acked_us = (known.get(backup) or members.state_of(backup)).acked_us
            if acked_us + heartbeat_us <= now_us:
                due[backup] = None
            members.check_by(acked_us + heartbeat_us)
        if due:
            self._send_heartbeats(due)
            members.check_by(min([known[each].heartbeat_due_us for each in due]))
        if troubled:
            members.check_by(now_us)
            self._suspect_silent()
        return troubled

    def _scan(self, near: list[Address], now_us: int) -> tuple[dict[Address, None], bool]:
        """Neighbours whose heartbeat is due, and whether any of them needs attention."""
        members, suspect_after_us = self._members, self._timers.suspect_after_us
        due, troubled, known = dict[Address, None](), False, members.states
        silent_us, first_us, calm_us = now_us - suspect_after_us, now_us, NEVER_US
        for peer in near:
            state = known.get(peer) or members.state_of(peer)
            if state.outdated:
                self._exchange.request_full_state(peer)
            heard_us, heartbeat_due_us = state.heard_us, state.heartbeat_due_us
            if (
                state.outdated
                or state.suspect_since_us >= 0
                or (heard_us < silent_us and state.since_us < silent_us)
            ):
                troubled = True
            if heartbeat_due_us <= now_us:
                due[peer] = None
            elif heartbeat_due_us < calm_us:
                calm_us = heartbeat_due_us
            if heard_us < first_us:
                first_us = heard_us
        members.check_by(min(calm_us, first_us + suspect_after_us))
        return due, troubled

    def _send_heartbeats(self, peers: Iterable[Address]) -> None:
        """Send heartbeats to those peers that have none pending."""
        is_open = self._exchange.is_sending_to
        self._exchange.send_to([each for each in peers if not is_open(each)])

    def _suspect_silent(self) -> None:
        """Suspect silent peers. Exchange heartbeats with the backups of suspects, which may take
        their place.
        """
        members, suspect_after_us = self._members, self._timers.suspect_after_us
        backups: dict[Address, None] = {}
        for peer in dict.fromkeys((*self._ownership.neighbours(), *self._backup_set.backups)):
            if not members.is_suspect(peer) and members.silence_us(peer) > suspect_after_us:
                members.suspect(peer)
            if members.is_suspect(peer):
                backups.update(dict.fromkeys(members.backups_of(peer)))
        backups.pop(self._address, None)
        now_us = self._host.now_us
        self._send_heartbeats(
            each for each in backups if members.state_of(each).heartbeat_due_us <= now_us
        )

    def _probe_lost(self) -> None:
        """Probe lost peers. A peer with few neighbours is in a small surface, perhaps one that was
        cut off from a larger one, and has little other upkeep: its pauses are shorter.
        """
        near = len(self._ownership.neighbours())
        for peer in self._members.due_probes(self._timers.probe_lost_us * max(1, near)):
            if not self._exchange.is_sending_to(peer):
                self._host.send(peer, self._exchange.heartbeat_for(peer))
