"""Bytes that crossed loopback: all of them, and by whom."""

import re
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path


def all_bytes() -> int:
    """Everything that was received on loopback so far, headers included. In a namespace of one's
    own nobody else is counted.
    """
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == "lo":
            return int(fields.split()[0])
    raise OSError("there is no loopback here")


def by_process() -> Counter[int]:
    """Bytes that each process has sent and received over its open TCP connections (payload, as the
    kernel counts).
    """
    found: Counter[int] = Counter()
    lines = subprocess.run(
        ["ss", "-tinpHO"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in lines:
        who = re.search(r"pid=(\d+)", line)
        counted = re.findall(r"bytes_(?:sent|received):(\d+)", line)
        if who:
            found[int(who[1])] += sum(map(int, counted))
    return found


class ByAddress(threading.Thread):
    """Counts bytes by address of sender and receiver, for systems that speak UDP: the kernel has no
    counts for it.
    """

    OUTGOING = 4

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.counts: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(0x0800))
        self._socket.bind(("lo", 0))

    def run(self) -> None:
        while True:
            packet, (_, _, kind, *_) = self._socket.recvfrom(65536)
            if kind != self.OUTGOING:  # on loopback each packet is seen twice
                self.counts[socket.inet_ntoa(packet[26:30])] += len(packet)
                self.counts[socket.inet_ntoa(packet[30:34])] += len(packet)


def gini(values: list[int]) -> float:
    ordered = sorted(values)
    total, count = sum(ordered), len(ordered)
    weighted = sum((2 * place - count - 1) * value for place, value in enumerate(ordered, 1))
    return weighted / (count * total) if total else 0.0
