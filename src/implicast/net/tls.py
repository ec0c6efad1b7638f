"""TLS without any I/O: bytes as they were said to bytes as they are sent, and back.

asyncio's own TLS is a transport above a transport with a protocol between: an eighth of all that a delivery costs (in
turns, `spice-unloaded`: 7,250 deliveries a CPU second with it, 8,270 without). Here it is two calls, and a connection
needs no buffer for it.
"""

import contextlib
import ssl

RECORD_BYTES = 16 << 10
"""What one record of TLS says at most, and so what is read at a time."""


class Tls:
    """One end of a connection."""

    __slots__ = ("_in", "_out", "object", "over", "shaken")

    def __init__(self, context: ssl.SSLContext, accepts: bool) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._in, self._out, server_side=accepts)
        self.shaken = False
        """The handshake is done: each side has verified the other, as far as its context demands."""
        self.over = False
        """The other side says no more."""

    def feed(self, sealed: bytes | memoryview) -> bytes:
        """What is said in bytes that came; nothing before the handshake is done. What answers them is in `unsent`.
        `ssl.SSLError` where the other side is refused, or speaks no TLS."""
        self._in.write(sealed)
        if not self.shaken and not self.shake():
            return b""
        said: list[bytes] = []
        try:
            while (
                self._in.pending
            ):  # nothing of a whole record is left inside: it was read in one go
                part = self.object.read(RECORD_BYTES)
                if not part:
                    self.over = True
                    break
                said.append(part)
        except ssl.SSLWantReadError:  # the last record is not whole
            pass
        return said[0] if len(said) == 1 else b"".join(said)

    def shake(self) -> bool:
        """Go on with the handshake, or begin it; is it done?"""
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.shaken = True
        return True

    def sealed(self, said: bytes) -> bytes:
        """What is to be sent for this, and for whatever else is unsent."""
        written = self.object.write(said)
        if written < len(said):  # one record at a time
            rest = memoryview(said)
            while written < len(said):
                written += self.object.write(rest[written:])
        return self._out.read()

    def unsent(self) -> bytes:
        """What TLS itself has to say: its part of the handshake, an alert."""
        return self._out.read() if self._out.pending else b""

    def farewell(self) -> bytes:
        """What is to be sent last."""
        with contextlib.suppress(
            ssl.SSLError
        ):  # it waits for the other's farewell, or the handshake is not done
            self.object.unwrap()
        return self.unsent()
