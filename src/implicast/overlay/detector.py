"""Moved to `peer/liveness.py`."""

from implicast.peer.liveness import DETECTOR_KINDS, Detector, DetectorSettings, Overdue, Ping, Pong

__all__ = ["DETECTOR_KINDS", "Detector", "DetectorSettings", "Overdue", "Ping", "Pong"]
