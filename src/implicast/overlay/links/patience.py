"""How long a node of a linked ring waits for an answer, and when it gives up."""

from dataclasses import dataclass

from implicast.overlay.links.refs import Ref
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Host, Message
from implicast.peer.liveness import Detector


@dataclass(slots=True, kw_only=True)
class Attempts:
    """How often something was asked, when it should have been answered, how often the alarm itself rang late.
    `health` is the observer's when it began: else a single death would make it slow to find that very death."""

    tried: int = 1
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0

    def begin(self, health: int, now_us: int) -> None:
        self.health, self.since_us = health, now_us

    def wait_until(self, due_us: int) -> None:
        self.due_us = due_us

    def once_more(self) -> None:
        self.tried += 1

    def rang_late(self) -> None:
        self.late += 1


class RingPatience:
    """Waits, longer each time, and longer still where the node's own health is bad."""

    __slots__ = ("_detector", "_host", "_settings")

    def __init__(self, host: Host, settings: LinkSettings, detector: Detector[Ref] | None) -> None:
        self._host, self._settings, self._detector = host, settings, detector

    def later(self, wait_us: int, alarm: Message, least: float = 0.5) -> int:
        """Ring after about so long: after so much of it at least, and at most as much and once the whole."""
        wait_us = int(wait_us * (least + self._host.rng.random()))
        self._host.after(wait_us, alarm)
        return wait_us

    def backoff_us(self, tried: int) -> int:
        return min(self._settings.rto_cap_us, self._settings.rto_us << min(tried, 8))

    def begin(self, attempts: Attempts, alarm: Message) -> None:
        """Something has been asked for the first time."""
        attempts.begin(self._detector.health if self._detector else 0, self._host.now_us)
        wait_us = self._settings.rto_us * (1 + attempts.health)
        attempts.wait_until(self._host.now_us + wait_us)
        self._host.after(wait_us, alarm)

    def wait_on(self, attempts: Attempts, alarm: Message) -> None:
        """It is asked once more."""
        wait_us = self.later(self.backoff_us(attempts.tried) * (1 + attempts.health), alarm)
        attempts.wait_until(self._host.now_us + wait_us)

    def is_spent(self, attempts: Attempts, ref: Ref) -> bool:
        """An attempt stayed unanswered: whether patience is over with this node. An alarm that rings late says that
        this node slept, not the other: that attempt does not count. Nor is a node dead that was heard meanwhile."""
        detector, now_us = self._detector, self._host.now_us
        if detector is None:
            attempts.once_more()
            return False
        is_late = now_us - attempts.due_us > self._settings.rto_us // 2
        if attempts.tried == 1 or is_late:  # silent nodes count, not attempts: else one death would take health away
            detector.ail()
        if is_late and attempts.late < self._settings.tries:
            attempts.rang_late()
            return False
        silent_us = detector.silent_for_us(ref)
        heard = silent_us is not None and now_us - silent_us > attempts.since_us
        if attempts.tried >= self._settings.tries * (2 if heard else 1):
            return True
        attempts.once_more()
        return False

    def answered(self, attempts: Attempts) -> None:
        """The first attempt sufficed: the observer is well connected."""
        if self._detector is not None and attempts.tried == 1 and not attempts.late:
            self._detector.ease()
