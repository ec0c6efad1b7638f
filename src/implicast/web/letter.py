"""A letter: what the page puts into a cast, and what it reads out of one.

A cast's payload is bytes; other programs may put anything there. A payload that begins with the
mark is a letter, any other one is shown as plain text, or as so many bytes. Every field has a
bound, and what does not fit is no letter.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from implicast.language.rules import Rule
from implicast.peer.wire import UNREADABLE

MARK = b"implicast-letter-1\n"
TEXT_MAX = 16_384
FILES_MAX = 16

Line = Annotated[str, Meta(max_length=256)]
Body = Annotated[str, Meta(max_length=TEXT_MAX)]
Expression = Annotated[str, Meta(max_length=4_096)]
Identity = Annotated[str, Meta(max_length=80)]
Kind = Literal["letter", "rules", "ask"]


class File(msgspec.Struct, frozen=True, array_like=True):
    """Something attached."""

    name: Line
    content: bytes


class Letter(msgspec.Struct, frozen=True):
    """One message from a person to those whom a target describes."""

    uid: Identity
    """Drawn by the author: the same letter has the same bytes, however often it is tried."""
    target: Expression
    author: Line = ""
    """What the author calls itself: it is not verified; the publisher's name is what counts."""
    subject: Line = ""
    text: Body = ""
    thread: Identity = ""
    """The uid of the letter that began the conversation; empty: this one."""
    alone: bool = False
    """An answer to the author of another letter, and to no other person."""
    kind: Kind = "letter"
    says: Annotated[tuple[Line, ...], Meta(max_length=64)] = ()
    """Tags of the author, which readers are offered when they write."""
    files: Annotated[tuple[File, ...], Meta(max_length=FILES_MAX)] = ()
    rules: Annotated[tuple[Rule, ...], Meta(max_length=256)] = ()


_decoder = msgspec.msgpack.Decoder(Letter)


def packed(letter: Letter) -> bytes:
    return MARK + msgspec.msgpack.encode(letter)


def unpacked(payload: bytes) -> Letter | None:
    """The letter in a payload; None if it is none."""
    if not payload.startswith(MARK):
        return None
    try:
        return _decoder.decode(payload[len(MARK) :])
    except UNREADABLE:
        return None


def named(publisher: str) -> str:
    """The tag by which one person alone is reached."""
    return f"name:{publisher}"
