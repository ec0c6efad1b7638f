"""Notifies systemd of the node's state, for units with `Type=notify`."""

import contextlib
import os
import socket


def notify(text: str) -> None:
    """Send `READY=1`, `STOPPING=1` or `STATUS=...` to the socket that systemd named; do nothing if
    there is none.
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect("\0" + where[1:] if where.startswith("@") else where)
        line.sendall(text.encode())
