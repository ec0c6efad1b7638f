"""Bytes to frames and back; nonsense is refused and never grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.net.transport.frames import (
    HEADER,
    HELLO,
    Frames,
    Hello,
    framed,
    hello_frame,
    read_hello,
)
from implicast.peer.errors import RemoteError

ME = Hello(1, b"net", b"digest", b"n" * 16, ("127.0.0.1", 7070), 3, 5, "0.1")


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 50))
def test_frames_come_whole_however_the_stream_is_cut(bodies, step):
    stream = b"".join(framed(body, serial=number) for number, body in enumerate(bodies))
    reader, found = Frames(), []
    for start in range(0, len(stream), step):
        found += reader.feed(stream[start : start + step])

    assert [(serial, body) for _, serial, body in found] == list(enumerate(bodies))
    assert len(reader) == 0


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_waits_and_nothing_else(data):
    reader = Frames(largest=64)
    try:
        frames = reader.feed(data)
    except RemoteError:
        return
    assert all(len(body) <= 64 for _, _, body in frames)
    assert len(reader) <= HEADER.size + 64


def test_a_hello_comes_back_and_a_broken_one_is_refused():
    ((flags, _, body),) = Frames().feed(hello_frame(ME))
    assert flags == HELLO
    assert read_hello(body) == ME

    for cut in range(len(body)):
        with pytest.raises(RemoteError):
            read_hello(body[:cut])
