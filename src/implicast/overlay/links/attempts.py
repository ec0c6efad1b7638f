"""The retries of one request to a neighbour on the ring, and when the neighbour is given up."""

from dataclasses import dataclass

from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.settings import LinkSettings
from implicast.peer.contract import Host, Message


def after_jittered(host: Host, wait_us: int, alarm: Message, least: float = 0.5) -> int:
    """Set an alarm after `wait_us` times `least` to `least` + 1; returns the wait."""
    wait_us = int(wait_us * (least + host.rng.random()))
    host.after(wait_us, alarm)
    return wait_us


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Retry state of one request. `tried`: attempts. `excused`: attempts that do not count towards
    the limit. `late`: how often the alarm itself fired late. `due_us`: when the answer was due.
    Waits grow with each attempt, and further with the node's own bad health. `health` is the node's
    health at the start, or a better one since: otherwise a single dead node would slow down its own
    detection.
    """

    tried: int = 1
    excused: int = 0
    health: int = 0
    late: int = 0
    since_us: int = 0
    due_us: int = 0

    def start(
        self, host: Host, settings: LinkSettings, liveness: RingLiveness, alarm: Message
    ) -> None:
        """The first attempt has been sent."""
        self.health, self.since_us = liveness.detector.health, host.now_us
        wait_us = settings.rto_us * (1 + self.health)
        self.due_us = self.since_us + wait_us
        host.after(wait_us, alarm)

    def retry_or_give_up(
        self, host: Host, settings: LinkSettings, liveness: RingLiveness, ref: Ref, alarm: Message
    ) -> bool:
        """An attempt stayed unanswered. Returns True if another attempt should be sent, False to
        give the node up. A late alarm means that this node was suspended, not the other one, so
        that attempt does not count. Attempts before the last message of the other node, to whatever
        purpose, do not count either; this at most doubles the limit.
        """
        detector, now_us = liveness.detector, host.now_us
        is_late = now_us - self.due_us > settings.rto_us // 2
        if self.tried == 1 or is_late:
            # counts silent nodes, not attempts: one dead node must not spoil the health
            detector.lower_health()
        if is_late and self.late < settings.tries:
            self.late += 1
        else:
            silent_us = detector.silent_for_us(ref)
            if silent_us is not None and now_us - silent_us > self.since_us:
                self.since_us, self.excused = now_us - silent_us, min(self.tried, settings.tries)
            if detector.is_enough(self.tried - self.excused):
                return False
            self.tried += 1
        health = min(self.health, detector.health)
        self.due_us = now_us + after_jittered(
            host, settings.backoff_us(self.tried) * (1 + health), alarm
        )
        return True

    def on_answer(self, liveness: RingLiveness) -> None:
        """If the first attempt sufficed, the own connection is good."""
        if self.tried == 1 and not self.late:
            liveness.detector.raise_health()
