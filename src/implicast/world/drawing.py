"""Draws the deeds that a `Churn` gives only the number of: when, and who of those who are there by then. Seeded.

Who is drawn must be there by the script: whether a newcomer has really joined by then is for the run to see.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from implicast.space.digest import stream
from implicast.world.deeds import DISKS, Deed, Range

if TYPE_CHECKING:
    from implicast.world.churn import Churn

SETTLED_S = 20.0
"""Whoever has just come is not drawn for anything else within this time."""
STAYING = 0.25
"""So many stay at any time, newcomers among them: this share of the first population, and at least two peers."""


class Drawing:
    """Draws the deeds of one script. Moments of each kind have a stream of their own: kinds do not disturb others."""

    def __init__(self, churn: "Churn", seed: int, peers: int, infrastructure: int) -> None:
        self.churn, self.seed = churn, seed
        self.members = dict.fromkeys(range(peers), -SETTLED_S)
        """Who is there by the script, and since when."""
        self.least = max(2, int(peers * STAYING))
        self.fixed = list(range(peers, peers + infrastructure))
        self.fresh = 1 + max(
            [peers + infrastructure - 1, *(who for deed in churn.deeds for who in deed.who)]
        )
        self.chance = stream(seed, "churn", "who")
        self.asked: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """Of each kind: peers, or servers, or links that something was to happen to, and to which it does."""

    def deeds(self) -> list[Deed]:
        """All that are drawn, in order of time."""
        drawn: list[Deed] = []
        moments = [(time_s, kind) for kind in _DRAW for time_s in self._moments_s(kind)]
        for time_s, kind in sorted(moments):
            deed = (
                _DRAW[kind](self, time_s)
                if kind == "joins" or len(self._present(time_s)) > 1
                else None
            )
            drawn += [deed] if deed is not None else []
            self.asked[kind] += self._at_once(kind)
            self.done[kind] += 0 if deed is None else len(deed.who) if kind == "crashes" else 1
        return drawn

    def shortfall(self) -> list[str]:
        """What was to be drawn and could not be, and why: a sentence for each kind."""
        self.deeds()
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
        """Per minute."""
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
    ) -> Deed:
        until_s = round(time_s + _uniform(self.chance, lasts_s), 3)
        return Deed(time_s, until_s, kind, who, round(amount, 3), detail)

    def join(self, time_s: float) -> Deed:
        self.members[self.fresh] = time_s
        self.fresh += 1
        return Deed(time_s, time_s, "join", (self.fresh - 1,))

    def leave(self, time_s: float) -> Deed | None:
        return self._end(time_s, "leave", 1)

    def crash(self, time_s: float) -> Deed | None:
        return self._end(time_s, "crash", self.churn.group)

    def _end(self, time_s: float, kind: str, count: int) -> Deed | None:
        who = self._some(time_s, max(0, min(count, len(self.members) - self.least)))
        for each in who:
            del self.members[each]
        return Deed(time_s, time_s, kind, who) if who else None

    def come_back(self, time_s: float) -> Deed | None:
        """Who is away is not drawn for anything else until it has settled again."""
        churn = self.churn
        if len(self._present(time_s)) <= self.least:
            return None
        disk = churn.disk if churn.disk in DISKS else self.chance.choice(DISKS)
        who = self._some(time_s)
        away = self._lasting(
            time_s, churn.away_s, "return", who, detail="" if disk == "kept" else disk
        )
        self.members[who[0]] = away.to_s
        return away

    def burst(self, time_s: float) -> Deed:
        rate = _uniform(self.chance, self.churn.burst_rate)
        return self._lasting(time_s, self.churn.burst_s, "burst", self._some(time_s), rate)

    def fall(self, time_s: float) -> Deed | None:
        who = self._end(time_s, "crash", 1)
        rate = _uniform(self.chance, self.churn.burst_rate)
        return self._lasting(time_s, self.churn.burst_s, "fall", who.who, rate) if who else None

    def say(self, time_s: float) -> Deed:
        return Deed(time_s, time_s, self.chance.choice(_SAYINGS), self._some(time_s))

    def restart(self, time_s: float) -> Deed | None:
        who = (self.chance.choice(self.fixed),) if self.fixed else ()
        return self._lasting(time_s, self.churn.down_s, "restart", who) if who else None

    def fail(self, time_s: float) -> Deed | None:
        if len(self.fixed) < 2:
            return None
        return Deed(
            time_s, time_s, "fail", (self.fixed.pop(self.chance.randrange(len(self.fixed))),)
        )

    def freeze(self, time_s: float) -> Deed:
        return self._lasting(time_s, self.churn.freeze_s, "freeze", self._some(time_s))

    def slow(self, time_s: float) -> Deed:
        amount = _uniform(self.chance, self.churn.slow_ms)
        return Deed(time_s, self.churn.over_s, "slow", self._some(time_s), round(amount, 3))

    def cut(self, time_s: float) -> Deed:
        return self._lasting(time_s, self.churn.cut_s, "cut", self._pair(time_s))

    def flap(self, time_s: float) -> Deed:
        amount = _uniform(self.chance, self.churn.flap_s)
        return self._lasting(time_s, self.churn.cut_s, "flap", self._pair(time_s), amount)

    def _pair(self, time_s: float) -> tuple[int, ...]:
        return tuple(self.chance.sample([*self._present(time_s), *self.fixed], 2))

    def split(self, time_s: float) -> Deed:
        everybody = [*self._present(time_s), *self.fixed]
        side = self.chance.sample(
            everybody, max(1, int(self.chance.uniform(0, self.churn.share) * len(everybody)))
        )
        return self._lasting(time_s, self.churn.split_s, "split", tuple(sorted(side)))


_DRAW: dict[str, Callable[[Drawing, float], Deed | None]] = {
    "joins": Drawing.join,
    "leaves": Drawing.leave,
    "crashes": Drawing.crash,
    "returns": Drawing.come_back,
    "bursts": Drawing.burst,
    "falls": Drawing.fall,
    "anew": Drawing.say,
    "restarts": Drawing.restart,
    "fails": Drawing.fail,
    "freezes": Drawing.freeze,
    "slow": Drawing.slow,
    "cuts": Drawing.cut,
    "flaps": Drawing.flap,
    "splits": Drawing.split,
}
_SAYINGS = ("register", "describe", "describe", "withdraw")
_RATES = {
    "joins": ("join_rate", 1.0),
    "leaves": ("leave_rate", 0.5),
    "crashes": ("crash_rate", 0.5),
}
"""The rate of each kind, and its share of a turnover."""
_STAY = f"{STAYING:g} of the first number of peers, and at least two, are always there"
_WHY = {
    "leaves": _STAY,
    "crashes": _STAY,
    "falls": _STAY,
    "returns": _STAY,
    "restarts": "there are no servers or brokers",
    "fails": "the last server or broker stays",
}
_FEW = f"fewer than two peers had been there for {SETTLED_S:g} s"
"""Why less was drawn than asked for."""


def _uniform(chance: Random, bounds: Range) -> float:
    return chance.uniform(*bounds)
