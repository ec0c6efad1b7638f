"""Both schemes keep the same promises; only one proves anything to a stranger."""

import pytest

from implicast.peer.errors import ParameterError
from implicast.peer.signatures import PUBLIC_BYTES, SCHEMES, SIGNATURE_BYTES, Scheme, scheme

SEED, OTHER_SEED = bytes(32), bytes(range(32))


@pytest.fixture(params=SCHEMES)
def signing(request: pytest.FixtureRequest) -> Scheme:
    return scheme(request.param, b"notary")


def test_what_was_signed_is_verified(signing: Scheme) -> None:
    signer = signing.signer(SEED)

    assert signing.verify(signer.public, b"text", signer.sign(b"text"))


def test_another_text_another_signer_or_a_changed_bit_is_not(signing: Scheme) -> None:
    signer, other = signing.signer(SEED), signing.signer(OTHER_SEED)
    signature = signer.sign(b"text")
    changed = bytes([signature[0] ^ 1]) + signature[1:]

    assert not signing.verify(signer.public, b"texts", signature)
    assert not signing.verify(other.public, b"text", signature)
    assert not signing.verify(signer.public, b"text", changed)


@pytest.mark.parametrize(
    "public", [b"", b"short", bytes(PUBLIC_BYTES), b"\xff" * PUBLIC_BYTES, b"x" * 100]
)
@pytest.mark.parametrize(
    "signature", [b"", b"short", bytes(SIGNATURE_BYTES), b"\xff" * SIGNATURE_BYTES]
)
def test_nonsense_is_not_a_signature_and_raises_nothing(
    signing: Scheme, public: bytes, signature: bytes
) -> None:
    assert not signing.verify(public, b"text", signature)


def test_keys_and_signatures_have_the_sizes_of_ed25519(signing: Scheme) -> None:
    signer = signing.signer(SEED)

    assert len(signer.public) == PUBLIC_BYTES == 32
    assert len(signer.sign(b"text")) == SIGNATURE_BYTES == 64


def test_a_key_pair_follows_from_its_seed(signing: Scheme) -> None:
    assert (
        signing.signer(SEED).public
        == signing.signer(SEED).public
        != signing.signer(OTHER_SEED).public
    )


def test_two_stand_ins_with_one_notary_understand_each_other_and_with_two_they_do_not() -> None:
    signer = scheme("stand-in", b"notary").signer(SEED)

    assert scheme("stand-in", b"notary").verify(signer.public, b"text", signer.sign(b"text"))
    assert not scheme("stand-in", b"another").verify(signer.public, b"text", signer.sign(b"text"))


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="ed25519, stand-in"):
        scheme("rsa", b"")


def test_ed25519_gives_the_published_signature() -> None:
    """RFC 8032, section 7.1, test 2."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    signer = scheme("ed25519", b"").signer(seed)

    assert signer.public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert signer.sign(b"\x72").hex().startswith("92a009a9f0d4cab8720e820b5f642540")
