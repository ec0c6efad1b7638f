"""Draws the events of which a `Churn` gives only the number: their times and their peers. Seeded.

A drawn peer is present according to the script. Whether a newcomer has really joined by then is
only known during the run.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from implicast.space.digest import stream
from implicast.world.scripted_events import ANY_DISK, BACK, DISKS, Range, ScriptedEvent

if TYPE_CHECKING:
    from implicast.world.churn import Churn

SETTLED_S = 20.0
"""A peer that joined or returned is not drawn for another event for this many seconds."""
STAYING = 0.25
"""Share of the initial population that is present at any time, newcomers included; never fewer than
two peers.
"""

FLASH_S = 10.0
"""The newcomers of a flash crowd ask to join within this many seconds."""


class Drawing:
    """Draws the events of one script. Each kind draws its times from its own random stream, so that
    the number of events of one kind does not move those of another.
    """

    def __init__(self, churn: "Churn", seed: int, peers: int, infrastructure: int) -> None:
        self.churn, self.seed = churn, seed
        self.members = dict.fromkeys(range(peers), -SETTLED_S)
        """By address of each member present in the script: the time in seconds since when it is
        present.
        """
        self.least = max(2, int(peers * STAYING))
        self.fixed = list(range(peers, peers + infrastructure))
        self.fresh = 1 + max(
            [peers + infrastructure - 1, *(who for event in churn.events for who in event.who)]
        )
        self.chance = stream(seed, "churn", "who")
        self.asked: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """By kind: number of peers, servers or links asked for, and number drawn."""

    def events(self) -> list[ScriptedEvent]:
        """All drawn events, in order of time."""
        drawn: list[ScriptedEvent] = []
        moments = [(time_s, kind) for kind in _DRAW for time_s in self._moments_s(kind)]
        for time_s, kind in sorted(moments):
            self.asked[kind] += self._at_once(kind)
            possible = kind in _ALWAYS or len(self._present(time_s)) > 1
            events = _DRAW[kind](self, time_s) if possible else []
            drawn += events
            peers = sum(len(event.who) for event in events)
            self.done[kind] += peers if kind == "crashes" else bool(events)
        return drawn

    def shortfall(self) -> list[str]:
        """One sentence for each kind of which fewer events were drawn than asked for, with the
        reason.
        """
        self.events()
        return [
            f"churn: {self.done[kind]} of {asked} {kind}: {_WHY.get(kind, _FEW)}"
            for kind, asked in self.asked.items()
            if self.done[kind] < asked
        ]

    def _at_once(self, kind: str) -> int:
        return self.churn.group if kind == "crashes" else 1

    def _moments_s(self, kind: str) -> list[float]:
        chance, over_s = stream(self.seed, "churn", kind), self.churn.over_s
        count = self.churn.groups() if kind == "crashes" else getattr(self.churn, kind)
        moments = [chance.uniform(0, over_s) for _ in range(count)]
        rate = self._rate(kind) / 60
        time_s = chance.expovariate(rate) if rate else over_s
        while time_s < over_s:
            moments.append(time_s)
            time_s += chance.expovariate(rate)
        return [min(round(moment_s, 3), max(0.0, over_s - 0.001)) for moment_s in moments]

    def _rate(self, kind: str) -> float:
        """Events per minute."""
        if kind not in _RATES:
            return 0.0
        name, share = _RATES[kind]
        return float(getattr(self.churn, name)) + self.churn.turnover * share

    def _present(self, time_s: float) -> list[int]:
        return [who for who, since_s in self.members.items() if since_s + SETTLED_S <= time_s]

    def _some(self, time_s: float, count: int = 1) -> tuple[int, ...]:
        present = self._present(time_s)
        return tuple(sorted(self.chance.sample(present, min(count, len(present)))))

    def _lasting(
        self,
        time_s: float,
        lasts_s: Range,
        kind: str,
        who: tuple[int, ...],
        amount: float = 0,
        detail: str = "",
    ) -> ScriptedEvent:
        until_s = round(time_s + _uniform(self.chance, lasts_s), 3)
        return ScriptedEvent(time_s, until_s, kind, who, round(amount, 3), detail)

    def join(self, time_s: float) -> list[ScriptedEvent]:
        self.members[self.fresh] = time_s
        self.fresh += 1
        return [ScriptedEvent(time_s, time_s, "join", (self.fresh - 1,))]

    def flash(self, time_s: float) -> list[ScriptedEvent]:
        """Newcomers that multiply the members present, spread evenly over `FLASH_S`."""
        factor = _uniform(self.chance, self.churn.flash_factor)
        count = max(1, round(len(self.members) * (factor - 1)))
        return [
            event
            for turn in range(count)
            for event in self.join(round(time_s + turn * FLASH_S / count, 3))
        ]

    def leave(self, time_s: float) -> list[ScriptedEvent]:
        return self._end(time_s, "leave", 1)

    def mass_leave(self, time_s: float) -> list[ScriptedEvent]:
        """A share of the members present leaves at once."""
        share = _uniform(self.chance, self.churn.leave_share)
        return self._end(time_s, "leave", max(1, round(share * len(self._present(time_s)))))

    def crash(self, time_s: float) -> list[ScriptedEvent]:
        return self._end(time_s, "crash", self.churn.group)

    def _end(self, time_s: float, kind: str, count: int) -> list[ScriptedEvent]:
        who = self._some(time_s, max(0, min(count, len(self.members) - self.least)))
        for each in who:
            del self.members[each]
        return [ScriptedEvent(time_s, time_s, kind, who)] if who else []

    def come_back(self, time_s: float) -> list[ScriptedEvent]:
        """An absent member is not drawn for another event until `SETTLED_S` after its return."""
        if len(self._present(time_s)) <= self.least:
            return []
        disk = self._disk()
        return [self._absence(time_s, self._some(time_s), disk)]

    def _disk(self) -> str:
        """The detail of a `return`."""
        disk = self.churn.disk
        drawn = self.chance.choice(DISKS) if disk == ANY_DISK else disk
        return "" if drawn == "kept" else drawn

    def _absence(self, time_s: float, who: tuple[int, ...], disk: str) -> ScriptedEvent:
        away = self._lasting(time_s, self.churn.away_s, "return", who, detail=disk)
        self.members.update(dict.fromkeys(who, away.to_s))
        return away

    def blackout(self, time_s: float) -> list[ScriptedEvent]:
        """All present members stop at once; a share of them, never so many that fewer than the
        least number stays, does not start again.
        """
        churn, present = self.churn, self._present(time_s)
        lost = min(int(len(present) * churn.lost), max(0, len(self.members) - self.least))
        gone = tuple(sorted(self.chance.sample(present, lost)))
        events = [ScriptedEvent(time_s, time_s, "crash", gone)] if gone else []
        for each in present:
            if each in gone:
                del self.members[each]
            else:
                disk = self._disk()
                events.append(self._absence(time_s, (each,), disk))
        return events

    def outage(self, time_s: float) -> list[ScriptedEvent]:
        """A share of the members present stops at once and starts again together."""
        present = self._present(time_s)
        share = _uniform(self.chance, self.churn.outage_share)
        who = self._some(time_s, max(1, round(share * len(present))))
        until_s = round(time_s + _uniform(self.chance, self.churn.away_s), 3)
        disks: dict[str, list[int]] = {}
        for each in who:
            disks.setdefault(self._disk(), []).append(each)
            self.members[each] = until_s
        return [
            ScriptedEvent(time_s, until_s, "return", tuple(some), detail=disk)
            for disk, some in disks.items()
        ]

    def roll(self, time_s: float) -> list[ScriptedEvent]:
        """All members present restart, one after the other."""
        present, events = self._present(time_s), []
        for each in self.chance.sample(present, len(present)):
            disk = self._disk()
            events.append(self._absence(time_s, (each,), disk))
            time_s = round(time_s + _uniform(self.chance, self.churn.roll_s), 3)
        return events

    def burst(self, time_s: float) -> list[ScriptedEvent]:
        rate = _uniform(self.chance, self.churn.burst_rate)
        return [self._lasting(time_s, self.churn.burst_s, "burst", self._some(time_s), rate)]

    def fall(self, time_s: float) -> list[ScriptedEvent]:
        ended = self._end(time_s, "crash", 1)
        rate = _uniform(self.chance, self.churn.burst_rate)
        return [self._lasting(time_s, self.churn.burst_s, "fall", each.who, rate) for each in ended]

    def change_registration(self, time_s: float) -> list[ScriptedEvent]:
        kind = self.chance.choice(_REGISTRATION_KINDS)
        return [ScriptedEvent(time_s, time_s, kind, self._some(time_s))]

    def restart(self, time_s: float) -> list[ScriptedEvent]:
        if not self.fixed:
            return []
        who = (self.chance.choice(self.fixed),)
        return [self._lasting(time_s, self.churn.down_s, "restart", who)]

    def fail(self, time_s: float) -> list[ScriptedEvent]:
        if len(self.fixed) < 2:
            return []
        who = (self.fixed.pop(self.chance.randrange(len(self.fixed))),)
        return [ScriptedEvent(time_s, time_s, "fail", who)]

    def freeze(self, time_s: float) -> list[ScriptedEvent]:
        return [self._lasting(time_s, self.churn.freeze_s, "freeze", self._some(time_s))]

    def slow(self, time_s: float) -> list[ScriptedEvent]:
        amount = _uniform(self.chance, self.churn.slow_ms)
        who = self._some(time_s)
        return [ScriptedEvent(time_s, self.churn.over_s, "slow", who, round(amount, 3))]

    def cut(self, time_s: float) -> list[ScriptedEvent]:
        return [self._lasting(time_s, self.churn.cut_s, "cut", self._pair(time_s))]

    def flap(self, time_s: float) -> list[ScriptedEvent]:
        amount = _uniform(self.chance, self.churn.flap_s)
        return [self._lasting(time_s, self.churn.cut_s, "flap", self._pair(time_s), amount)]

    def _pair(self, time_s: float) -> tuple[int, ...]:
        return tuple(self.chance.sample([*self._present(time_s), *self.fixed], 2))

    def split(self, time_s: float) -> list[ScriptedEvent]:
        return [self._lasting(time_s, self.churn.split_s, "split", self._side(time_s))]

    def oneway(self, time_s: float) -> list[ScriptedEvent]:
        return [self._lasting(time_s, self.churn.split_s, "oneway", self._side(time_s))]

    def _side(self, time_s: float) -> tuple[int, ...]:
        hosts = [*self._present(time_s), *self.fixed]
        size = max(1, int(self.chance.uniform(0, self.churn.share) * len(hosts)))
        return tuple(sorted(self.chance.sample(hosts, size)))

    def deaf(self, time_s: float) -> list[ScriptedEvent]:
        who = (self.chance.choice([*self._present(time_s), *self.fixed]),)
        return [self._lasting(time_s, self.churn.deaf_s, "deaf", who)]

    def jump(self, time_s: float) -> list[ScriptedEvent]:
        """A clock goes ahead; or it goes back and its member restarts, if members do."""
        amount, who = round(_uniform(self.chance, self.churn.jump_s), 3), self._some(time_s)
        if not self.churn.jumps_back or self.chance.random() < 0.5:
            return [ScriptedEvent(time_s, time_s, "jump", who, amount)]
        disk = self._disk()
        back = ScriptedEvent(time_s, time_s, "jump", who, amount, BACK)
        return [back, self._absence(time_s, who, disk)]


_DRAW: dict[str, Callable[[Drawing, float], list[ScriptedEvent]]] = {
    "joins": Drawing.join,
    "leaves": Drawing.leave,
    "crashes": Drawing.crash,
    "returns": Drawing.come_back,
    "bursts": Drawing.burst,
    "falls": Drawing.fall,
    "anew": Drawing.change_registration,
    "restarts": Drawing.restart,
    "fails": Drawing.fail,
    "freezes": Drawing.freeze,
    "slow": Drawing.slow,
    "cuts": Drawing.cut,
    "flaps": Drawing.flap,
    "splits": Drawing.split,
    "blackouts": Drawing.blackout,
    "outages": Drawing.outage,
    "rolls": Drawing.roll,
    "flash": Drawing.flash,
    "mass_leaves": Drawing.mass_leave,
    "oneway": Drawing.oneway,
    "deaf": Drawing.deaf,
    "jumps": Drawing.jump,
}
"""By count of a `Churn`, the function that draws the events of one moment."""
_ALWAYS = ("joins", "blackouts", "flash")
"""Kinds that need no two members present."""
_REGISTRATION_KINDS = ("register", "describe", "describe", "withdraw")
_RATES = {
    "joins": ("join_rate", 1.0),
    "leaves": ("leave_rate", 0.5),
    "crashes": ("crash_rate", 0.5),
}
"""By kind: the rate parameter, and the share of `turnover` that is added to it."""
_STAY = f"{STAYING:g} of the first number of peers, and at least two, are always there"
_WHY = {
    "leaves": _STAY,
    "crashes": _STAY,
    "falls": _STAY,
    "returns": _STAY,
    "mass_leaves": _STAY,
    "restarts": "there are no servers or brokers",
    "fails": "the last server or broker stays",
}
_FEW = f"fewer than two peers had been there for {SETTLED_S:g} s"
"""By kind, the reason for a shortfall; `_FEW` for all others."""


def _uniform(chance: Random, bounds: Range) -> float:
    return chance.uniform(*bounds)
