"""TLS between two ends in memory, and handshakes that nobody finishes."""

import asyncio
import socket
import ssl

import pytest

from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.keys import own_key, pem
from implicast.net.transport import connection as connections_module
from implicast.net.transport import connection_pool as pool_module
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.net.transport.tls import RECORD_BYTES, Tls, contexts


def made(folder, authority="ca"):
    """The contexts of a node, for accepting and dialling; `authority` issues its certificate, ca is trusted."""
    for name in {"ca", authority}:
        if not (folder / name).exists():
            CertificateAuthority.init(folder / name, name).close()
    issuer = CertificateAuthority(folder / authority)
    own = folder / f"of-{authority}"
    own.mkdir(exist_ok=True)
    (own / "node.pem").write_bytes(pem(issuer.issue("one", own_key(own / "node.key").public_key())))
    issuer.close()
    return contexts(own / "node.key", own / "node.pem", folder / "ca" / "authority.pem")


def handshake(one, other):
    """Carry the handshake of two ends to its end."""
    one.handshake()
    other.feed(one.pending_output())
    one.feed(other.pending_output())
    other.feed(one.pending_output())


@pytest.fixture
def ends(tmp_path):
    accepting, dialling = made(tmp_path)
    one, other = Tls(dialling, accepts=False), Tls(accepting, accepts=True)
    handshake(one, other)
    assert one.handshake_done
    assert other.handshake_done
    return one, other


@pytest.mark.parametrize("size", [1, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 1_000_000])
def test_what_was_said_comes_out_at_the_other_end(ends, size):
    one, other = ends
    said = bytes(number % 251 for number in range(size))

    assert other.feed(one.encrypt(said)) == said


@pytest.mark.parametrize("step", [1, 7, RECORD_BYTES + 5])
def test_records_may_come_in_pieces(ends, step):
    one, other = ends
    said = bytes(40_000)
    encrypt = one.encrypt(said)

    assert (
        b"".join(other.feed(encrypt[at : at + step]) for at in range(0, len(encrypt), step)) == said
    )


def test_what_comes_with_the_end_of_the_handshake_is_read(tmp_path):
    accepting, dialling = made(tmp_path)
    one, other = Tls(dialling, accepts=False), Tls(accepting, accepts=True)
    one.handshake()
    other.feed(one.pending_output())
    one.feed(other.pending_output())

    assert other.feed(one.encrypt(b"hello")) == b"hello"


def test_a_farewell_ends_it(ends):
    one, other = ends

    assert other.feed(one.encrypt(b"last") + one.close_notify()) == b"last"
    assert other.closed_by_peer


def test_a_stranger_is_refused_and_told_so(tmp_path):
    (accepting, _), (_, dialling) = made(tmp_path), made(tmp_path, "other")
    dialling.verify_mode = ssl.CERT_NONE
    one, other = Tls(dialling, accepts=False), Tls(accepting, accepts=True)
    one.handshake()
    other.feed(one.pending_output())
    one.feed(other.pending_output())
    with pytest.raises(ssl.SSLCertVerificationError):
        other.feed(one.encrypt(b"let me in"))
    with pytest.raises(ssl.SSLError, match="alert"):
        one.feed(other.pending_output())


def test_what_is_no_tls_is_refused(tmp_path):
    other = Tls(made(tmp_path)[0], accepts=True)
    with pytest.raises(ssl.SSLError):
        other.feed(b"GET / HTTP/1.0\r\n\r\n")


def test_of_handshakes_that_nobody_finishes_the_oldest_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "HANDSHAKES_MAX", 3)

    async def story():
        hello = Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", 1), 1, 1)
        server = ConnectionPool(lambda: hello, lambda *told: None, Counters(), *made(tmp_path))
        port = await server.listen("127.0.0.1", 0)
        lines = []
        for _ in range(5):
            line = socket.create_connection(("127.0.0.1", port))
            line.setblocking(False)
            lines.append(line)
            while len(server.handshaking) < min(len(lines), 3):
                await asyncio.sleep(0)
        ended = [await asyncio.wait_for(_end(line), 5) for line in lines[:2]]
        left = len(server.handshaking)
        await server.close()
        ended += [await asyncio.wait_for(_end(line), 5) for line in lines[2:]]
        for line in lines:
            line.close()
        return ended, left

    assert asyncio.run(story()) == ([b""] * 5, 3)


class Unread(asyncio.Transport):
    """To one who does not read: it cannot be closed before all is written."""

    is_cut = False

    def set_write_buffer_limits(self, high=None, low=None): ...

    def write(self, data): ...

    def is_closing(self):
        return False

    def close(self): ...

    def abort(self):
        self.is_cut = True


def test_one_who_does_not_read_what_was_said_before_the_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections_module, "LINGER_S", 0.02)

    async def story():
        hello = Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", 1), 1, 1)
        link, transport = (
            connections_module.Connection(
                ConnectionPool(lambda: hello, lambda *told: None, Counters()), None, None
            ),
            Unread(),
        )
        link.connection_made(transport)
        link.close()
        before = transport.is_cut
        await asyncio.sleep(0.1)
        return before, transport.is_cut

    assert asyncio.run(story()) == (False, True)


def test_a_connection_is_closed_when_the_certificate_of_the_other_side_expires(
    tmp_path, monkeypatch
):
    async def story():
        tls = made(tmp_path)
        says = [
            Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", port), 1, 1) for port in (1, 2)
        ]
        server, other = (
            ConnectionPool(lambda each=each: each, lambda *told: None, Counters(), *tls)
            for each in says
        )
        port = await server.listen("127.0.0.1", 0)
        other.send(("127.0.0.1", port), b"x", 0)
        while not server.connected_nodes():
            await asyncio.sleep(0.001)
        server.close_expired()
        before = server.counters["refused_strangers"]
        monkeypatch.setattr(pool_module.time, "time", lambda: 1e11)
        server.close_expired()
        monkeypatch.undo()
        async with asyncio.timeout(5):
            while server.connected_nodes():
                await asyncio.sleep(0.001)
        await asyncio.gather(server.close(), other.close())
        return before, server.counters["refused_strangers"]

    assert asyncio.run(story()) == (0, 1)


async def _end(line):
    try:
        return await asyncio.get_running_loop().sock_recv(line, 1)
    except ConnectionResetError:
        return b""
