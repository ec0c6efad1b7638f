"""Proofs inside a description, as values whose attribute names no expression can contain."""

from base64 import b64decode, b64encode

from implicast.language.target import Description, Value

HIDDEN = "\0"
"""First character of the attribute names that carry a proof. The language's parser accepts no such
name.
"""
CHUNK = 240
"""Characters of the base64 text in one value."""


def embed_proof(description: Description | None, proof: bytes) -> Description | None:
    """The description with a proof added to its values; unchanged if the proof is empty."""
    if not proof:
        return description
    text, bare = b64encode(proof).decode(), description or Description()
    chunks = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    hidden = [Value(f"{HIDDEN}{number:03d}", chunk) for number, chunk in enumerate(chunks)]
    return Description(bare.tags, (*hidden, *bare.values))


def extract_proof(description: Description | None) -> tuple[Description | None, bytes]:
    """The description without the proof (None if it holds nothing else), and the proof (empty if
    there is none).
    """
    hidden = (
        []
        if description is None
        else [each for each in description.values if each.attribute.startswith(HIDDEN)]
    )
    if description is None or not hidden:
        return description, b""
    values = tuple(each for each in description.values if not each.attribute.startswith(HIDDEN))
    bare = Description(description.tags, values) if description.tags or values else None
    try:
        return bare, b64decode("".join(str(each.value) for each in hidden), validate=True)
    except ValueError:  # not base64, or not ASCII
        return bare, b""
