"""Messages survive the wire; nonsense raises RemoteError and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.contract import CastId, Message
from implicast.peer.errors import RemoteError
from implicast.peer.wire import MESSAGE_BYTES_MAX, Codec, size


class Find(Message):
    key: int
    origin: int | tuple[str, int]
    path: tuple[str, ...] = ()


class Carry(Message):
    cast: CastId
    payload: bytes


CODEC = Codec([Find, Carry])


@given(st.integers(-(2**63), 2**63 - 1), st.tuples(st.text(), st.integers(0, 65535)), st.lists(st.text()))
def test_what_is_encoded_comes_back(key, origin, path):
    message = Find(key, origin, tuple(path))

    assert CODEC.decode(CODEC.encode(message)) == message


def test_the_code_of_a_kind_follows_the_order_of_names():
    assert CODEC.encode(Carry(CastId(1, 2), b""))[0] == 0
    assert CODEC.encode(Find(1, 2))[0] == 1


@given(st.binary(max_size=64))
def test_garbage_raises_nothing_but_remote_error(data):
    try:
        message = CODEC.decode(data)
    except RemoteError:
        return
    assert isinstance(message, Find | Carry)


def test_a_message_beyond_the_bound_is_refused():
    with pytest.raises(RemoteError, match="bytes"):
        CODEC.decode(b"\0" * (MESSAGE_BYTES_MAX + 1))


def test_size_is_that_of_the_encoding():
    assert size((1, "ab")) == len(b"\x92\x01\xa2ab")
