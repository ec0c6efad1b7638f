"""A proof beside the values of a description comes back as it was hidden; what is none is no proof."""

import pytest

from implicast.language.parse import description
from implicast.language.target import Description, Value
from implicast.peer.embedded_proofs import embed_proof, extract_proof

HIDDEN = embed_proof(None, b"x").values[0].attribute


@pytest.mark.parametrize("length", [1, 66, 300])
def test_what_was_hidden_is_revealed(length):
    said, proof = description("jazz, age = @3"), bytes(range(256)) * 2
    assert extract_proof(embed_proof(said, proof[:length])) == (said, proof[:length])


@pytest.mark.parametrize("text", ["ä", "\u2028", "a", "*", "a b=", 7])
def test_what_is_no_base64_is_no_proof(text):
    assert extract_proof(Description(("jazz",), (Value(HIDDEN, text),))) == (
        Description(("jazz",)),
        b"",
    )
