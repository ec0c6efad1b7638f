"""Clocks of peers: rates that differ, and jumps.

A running peer never sees its clock go back, as a node's clock is read once at its start and then
advances by the monotonic clock of its machine. A jump ahead takes effect at once, a jump back when
the peer next starts. No clock goes back to before the begin of the run.
"""

from collections.abc import Iterable

from implicast.space.digest import digest_bits
from implicast.world.churn import Churn
from implicast.world.scripted_events import BACK, ScriptedEvent
from implicast.world.world import DriftingHost, World

_S = 1_000_000


def drift_rates(churn: Churn, seed: int, hosts: int) -> dict[int, float]:
    """By host, how many seconds pass while its clock advances one second."""
    some = range(hosts if churn.drift else 0)
    return {
        host: 1 + churn.drift * (2 * digest_bits(48, seed, "drift", host) / 2**48 - 1)
        for host in some
    }


def allow_jumps(world: World, script: Iterable[ScriptedEvent]) -> None:
    """Let the clocks jump that the script names. Called before any host is made."""
    world.shifts = {who: 0 for event in script if event.kind == "jump" for who in event.who}


def jump(world: World, event: ScriptedEvent) -> None:
    """Move the clocks of the peers of a `jump`."""
    for address in event.who:
        if event.detail == BACK:
            back_us = world.shifts[address] - int(event.amount * _S)
            world.shifts[address] = max(back_us, -world.now_us)
        else:
            ahead_us = int(event.amount * _S)
            world.shifts[address] += ahead_us
            host: DriftingHost | None = world.hosts.get(address)  # type: ignore[assignment]
            if host is not None:
                host.shift_us += ahead_us
