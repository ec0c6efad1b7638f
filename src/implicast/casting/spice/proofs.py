"""The owners' words on entries: an entry of a signed network carries its owner's proof, hidden in what it was before.

One proof covers a version of the owner's description under all its tags; that the owner is not under a tag any more is
proved for that tag alone. So whoever keeps an entry, the owner of a place, an heir that takes over or a replica root,
checks it by itself, and an entry cannot be moved to another tag, another address or another version.
"""

from collections.abc import Sequence

from implicast.casting.spice.homes import spot_of
from implicast.casting.spice.messages import Entry
from implicast.language.target import Description
from implicast.peer.words import Words, hide, reveal


def proved(words: Words, tag: str, entry: Entry) -> Entry:
    """An entry of this peer's own as it travels."""
    if not words.signed:
        return entry
    proof = words.prove(_about(tag, entry, entry.before), _said(entry, entry.before))
    return Entry(entry.member, entry.version, entry.spot, entry.description, hide(entry.before, proof))


def is_proved(words: Words, tag: str, entry: Entry) -> bool:
    """Whether the owner of an entry has said it, under this tag."""
    if not words.signed:
        return True
    before, proof = reveal(entry.before)
    if entry.spot != spot_of(entry.member.name, tag) or (entry.description and tag not in entry.description.tags):
        return False
    return words.proved(entry.member.name, _about(tag, entry, before), proof, _said(entry, before))


def all_proved(words: Words, tag: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Those of several whose owners have said them."""
    return entries if not words.signed else [each for each in entries if is_proved(words, tag, each)]


def _about(tag: str, entry: Entry, before: Description | None) -> tuple[object, ...]:
    under = tag if entry.description is None else ""
    return "entry", entry.member, entry.version, entry.description, before, under


def _said(entry: Entry, before: Description | None) -> Description | None:
    """All that the owner says of itself there: both may need the authority's word."""
    now = entry.description
    if now is None or before is None:
        return now or before
    return Description((*now.tags, *before.tags), (*now.values, *before.values))
