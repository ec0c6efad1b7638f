"""Tells systemd how the node is, where systemd asked to be told (`Type=notify`)."""

import contextlib
import os
import socket


def notify(text: str) -> None:
    """`READY=1`, `STOPPING=1` or `STATUS=...` to the socket that systemd named; nothing where there is none."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect("\0" + where[1:] if where.startswith("@") else where)
        line.sendall(text.encode())
