"""Messages survive the wire; nonsense raises RemoteError and nothing else."""

from types import new_class
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from implicast.casting.designs import designs
from implicast.peer.contract import CastId, Message
from implicast.peer.errors import ParameterError, RemoteError
from implicast.peer.wire import MESSAGE_BYTES_MAX, Codec, list_size, size

NAME = b"n" * 16


class Find(Message):
    wire = 0x7002

    key: int
    origin: int | tuple[str, int]
    path: tuple[str, ...] = ()


class ForwardCast(Message):
    wire = 0x7001

    cast: CastId
    payload: Annotated[bytes, Meta(max_length=8)]


CODEC = Codec([Find, ForwardCast])


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.tuples(st.text(max_size=50), st.integers(0, 65535)),
    st.lists(st.text()),
)
def test_what_is_encoded_comes_back(key, origin, path):
    message = Find(key, origin, tuple(path))

    assert CODEC.decode(CODEC.encode(message)) == message


def test_a_kind_is_called_by_its_number_whatever_others_there_are():
    carry = ForwardCast(CastId(NAME, 1, 2), b"")

    assert CODEC.encode(carry)[:2] == Codec([ForwardCast]).encode(carry)[:2] == b"\x70\x01"


def test_a_field_beyond_its_bound_is_refused():
    long = CODEC.encode(ForwardCast(CastId(NAME, 1, 2), b"123456789"))

    with pytest.raises(RemoteError, match="ForwardCast"):
        CODEC.decode(long)
    with pytest.raises(RemoteError, match="ForwardCast"):
        CODEC.decode(CODEC.encode(ForwardCast(CastId(NAME, 1, 2**62), b"")))


def test_a_role_refuses_what_is_not_for_it():
    with pytest.raises(RemoteError, match="unknown message kind"):
        Codec([ForwardCast]).decode(CODEC.encode(Find(1, 2)))


def test_the_digest_tells_designs_kinds_fields_and_parameters_apart():
    class Find(Message):
        wire = 0x7002

        key: str

    one = CODEC.digest("dht", {"k": 3})
    changed = Codec([Find, ForwardCast]).digest("dht", {"k": 3})
    others = [CODEC.digest("dht", {"k": 4}), CODEC.digest("spice", {"k": 3}), changed]

    assert one == Codec([ForwardCast, *CODEC.kinds]).digest("dht", {"k": 3})
    assert len({one, *others}) == 4


@given(st.binary(max_size=64))
def test_garbage_raises_nothing_but_remote_error(data):
    try:
        message = CODEC.decode(data)
    except RemoteError:
        return
    assert isinstance(message, Find | ForwardCast)


def test_a_message_beyond_the_bound_is_refused():
    with pytest.raises(RemoteError, match="bytes"):
        CODEC.decode(b"\0" * (MESSAGE_BYTES_MAX + 1))


def test_size_is_that_of_the_encoding():
    assert size((1, "ab")) == len(b"\x92\x01\xa2ab")


def test_a_kind_without_a_number_is_refused_by_name():
    class Nameless(Message):
        key: int

    with pytest.raises(ParameterError, match="Nameless has no wire number"):
        Codec([ForwardCast, Nameless])


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_the_size_of_a_list_follows_from_those_of_its_items(count):
    assert list_size(count, count * size(777)) == size([777] * count)


# --- the law of the protocol digest: structure counts, Python names do not

KINDS = [(name, kind) for name, design in designs().items() for kind in design.kinds]


def _kind(name: str, wire: int, fields: dict[str, object], optional: int = 0) -> type[Message]:
    """A message kind of these fields, of which the last `optional` may be left out."""
    space = {"wire": wire, "__module__": "elsewhere", "__annotations__": fields}
    defaults = dict.fromkeys(list(fields)[len(fields) - optional :])
    return new_class(name, (Message,), {}, lambda body: body.update(space | defaults))


def _renamed(kind: type[Message], change: int | None = None) -> type[Message]:
    """The kind under other names in another module; `change`: the number of a field that gets another type."""
    own = msgspec.structs.fields(kind)
    fields = {
        f"f{number}": bool if number == change else each.type for number, each in enumerate(own)
    }
    return _kind(f"Other{kind.__name__}", kind.wire, fields, sum(not each.required for each in own))


@pytest.mark.parametrize("name", list(designs()))
def test_renaming_and_moving_every_class_leaves_the_digest_alone(name):
    kinds = designs()[name].kinds

    assert Codec(map(_renamed, kinds)).digest(name, {}) == Codec(kinds).digest(name, {})


def test_another_type_of_any_field_of_any_message_changes_the_digest():
    seen = set()
    for _, kind in KINDS:
        if kind in seen:
            continue
        seen.add(kind)
        for number, each in enumerate(msgspec.structs.fields(kind)):
            if each.type is not bool:
                changed = Codec([_renamed(kind, change=number)]).digest("d", {})
                assert changed != Codec([kind]).digest("d", {}), (kind, each.name)


def _one(field: object, *, wire: int = 0x7001, **more: object) -> bytes:
    return Codec([_kind("K", wire, {"a": field, **more})]).digest("d", {})


def test_a_bound_a_number_a_field_and_a_default_change_the_digest():
    class Inner(Message):
        a: Annotated[int, Meta(ge=0, le=7)]

    class Wider(Message):
        a: Annotated[int, Meta(ge=0, le=8)]

    forms = [
        _one(int),
        _one(Annotated[int, Meta(ge=0)]),
        _one(Annotated[int, Meta(ge=0, le=7)]),
        _one(Annotated[int, Meta(ge=0, le=8)]),
        _one(Annotated[str, Meta(max_length=7)]),
        _one(Annotated[bytes, Meta(max_length=7)]),
        _one(Annotated[tuple[int, ...], Meta(max_length=7)]),
        _one(tuple[int, int]),
        _one(tuple[int, int] | None),
        _one(Inner),
        _one(Wider),
        _one(int, wire=0x7002),
        _one(int, b=int),
    ]

    assert len(set(forms)) == len(forms)
    assert _one(Inner) == _one(type("Renamed", (Inner,), {"__module__": "elsewhere"}))


def test_a_field_that_may_be_left_out_changes_the_digest():
    class TaskKey(Message):
        wire = 0x7001
        a: int

    class LeftOut(Message):
        wire = 0x7001
        a: int = 0

    assert Codec([TaskKey]).digest("d", {}) != Codec([LeftOut]).digest("d", {})
