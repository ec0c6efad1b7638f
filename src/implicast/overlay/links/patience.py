"""How long a node of a linked ring waits for an answer, and when it gives up."""

from dataclasses import dataclass

from implicast.overlay.detector import Detector
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Address, Host, Message, Part


@dataclass(slots=True, kw_only=True)
class Attempts:
    """How often something was asked, when it should have been answered, how often the alarm itself rang late.
    `health` is the observer's when it began: else a single death would make it slow to find that very death."""

    tried: int = 1
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0


class Patient(Part):
    """Waits, longer each time, and longer still where its own health is bad."""

    __slots__ = ("detector", "settings")

    detector: Detector[Ref] | None
    """None in a world without crashes, where nobody is ever suspected. Overlays above share it."""

    def __init__(self, address: Address, host: Host, settings: LinkSettings) -> None:
        super().__init__(address, host)
        self.settings = settings

    def _later(self, wait_us: int, alarm: Message) -> int:
        wait_us = int(wait_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, alarm)
        return wait_us

    def _backoff_us(self, tried: int) -> int:
        return min(self.settings.rto_cap_us, self.settings.rto_us << min(tried, 8))

    def _begin_waiting(self, attempts: Attempts, alarm: Message) -> None:
        attempts.health = self.detector.health if self.detector else 0
        wait_us = self.settings.rto_us * (1 + attempts.health)
        attempts.since_us, attempts.due_us = self.host.now_us, self.host.now_us + wait_us
        self.host.after(wait_us, alarm)

    def _wait_on(self, attempts: Attempts, alarm: Message) -> None:
        wait_us = self._later(self._backoff_us(attempts.tried) * (1 + attempts.health), alarm)
        attempts.due_us = self.host.now_us + wait_us

    def _is_spent(self, attempts: Attempts, ref: Ref) -> bool:
        """An attempt stayed unanswered: whether patience is over with this node. An alarm that rings late says that
        this node slept, not the other: that attempt does not count. Nor is anybody dead who was heard meanwhile."""
        detector, now_us = self.detector, self.host.now_us
        if detector is None:
            attempts.tried += 1
            return False
        is_late = now_us - attempts.due_us > self.settings.rto_us // 2
        if attempts.tried == 1 or is_late:  # silent nodes count, not attempts: else one death would take health away
            detector.ail()
        if is_late and attempts.late < self.settings.tries:
            attempts.late += 1
            return False
        silent_us = detector.silent_for_us(ref)
        heard = silent_us is not None and now_us - silent_us > attempts.since_us
        if attempts.tried >= self.settings.tries * (2 if heard else 1):
            return True
        attempts.tried += 1
        return False

    def _answered(self, attempts: Attempts) -> None:
        if self.detector is not None and attempts.tried == 1 and not attempts.late:
            self.detector.ease()
