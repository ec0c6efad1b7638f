"""A member may not speak as if it were the node that it speaks to: engines believe what comes from themselves."""

import asyncio

import pytest

from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import PROTOCOL, Hello, framed, hello_frame


async def heard_of(name, port_of):
    """Who is heard by a node when one of this name says that it is at this place; and what the node counts."""
    own: list[tuple[str, int]] = [("127.0.0.1", 0)]
    heard, counters = [], Counters()
    pool = ConnectionPool(
        lambda: Hello(PROTOCOL, b"net", b"d", b"a" * 16, own[0], 1, 1),
        lambda hello, body, serial: heard.append(hello.name),
        counters,
    )
    own[0] = ("127.0.0.1", await pool.listen("127.0.0.1", 0))
    _, writer = await asyncio.open_connection(*own[0])
    writer.write(
        hello_frame(Hello(PROTOCOL, b"net", b"d", name, ("127.0.0.1", port_of(own[0][1])), 1, 1))
    )
    writer.write(framed(b"x"))
    await asyncio.sleep(0.1)
    writer.close()
    await pool.close()
    return heard, counters["refused_strangers"]


@pytest.mark.parametrize(
    ("name", "port_of", "expected"),
    [
        (b"b" * 16, lambda port: port, ([], 1)),
        (b"a" * 16, lambda port: port, ([b"a" * 16], 0)),
        (b"b" * 16, lambda port: port - 1, ([b"b" * 16], 0)),
    ],
    ids=["another at our place", "we ourselves", "another elsewhere"],
)
def test_who_says_that_it_is_where_we_are_is_not_heard(name, port_of, expected):
    assert asyncio.run(heard_of(name, port_of)) == expected
