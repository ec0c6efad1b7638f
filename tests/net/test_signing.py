"""The authority's word on what nodes say: in their certificates, checked by whoever keeps what they say."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import NotifyAck
from implicast.cli import main
from implicast.language.parse import description
from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.keys import IdentityError, node_certificate, own_key, pem, read_key
from implicast.net.identity.signing import PendingSignature, VerificationCache, signing_of
from implicast.peer.contract import CastId
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.ledger import Ledger
from implicast.peer.signatures import Ed25519
from implicast.peer.signing import KeyedSigning

SIGNED = {"signed": True, "signatures": "ed25519"}
DOCTOR = description('role = "doctor", eu')


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    CertificateAuthority.init(tmp_path / "ca", "lab").close()
    (tmp_path / "ca" / "authority.toml").write_text(
        '[protected]\n"role" = "roster"\n"staff:*" = "roster"\n'
    )
    return tmp_path / "ca"


def node(authority: Path, label: str) -> Path:
    folder = authority.parent / label
    folder.mkdir(exist_ok=True)
    said = CliRunner().invoke(
        main, ["authority", "issue", label, "--authority", str(authority), "--node", str(folder)]
    )
    assert said.exit_code == 0, said.output
    return folder


def speaker(folder: Path) -> KeyedSigning:
    signing = signing_of(folder, SIGNED, Ledger(), ("127.0.0.1", 1), b"lab")
    assert isinstance(signing, KeyedSigning)
    return signing


def test_a_confirmation_that_is_signed_when_it_leaves_is_the_same(authority):
    folder = node(authority, "ann")
    at_once, late = (
        speaker(folder),
        signing_of(folder, SIGNED, Ledger(), ("127.0.0.1", 1), b"lab", late=True),
    )
    got = NotifyAck(CastId(b"p" * 16, 1, 1), at_once.name, Outcome.TAKEN)
    signed = []
    late._signer = Counting(late._signer, signed)
    unsigned = late.sign_message(got)

    assert isinstance(unsigned, PendingSignature)
    assert not signed
    assert unsigned.signed() == at_once.sign_message(got)
    assert len(signed) == 1


def test_a_publisher_does_not_check_its_own_cast_and_everybody_else_does(authority):
    late = signing_of(node(authority, "ann"), SIGNED, Ledger(), ("127.0.0.1", 1), b"lab", late=True)
    cast, checked = CastId(late.name, 1, 1), []
    sealed = late.sign_payload(cast, "gpu", b"hello", LIFETIME_US)
    assert (
        late.verified_payload(cast, "gpu", sealed, 0) == b"hello"
    )  # the authority's word on its name is known from now on
    late._scheme = Refusing(checked)

    assert late.verified_payload(cast, "gpu", sealed, 0) == b"hello"
    assert not checked
    assert late.verified_payload(cast, "eu", sealed, 0) is None  # not what it signed
    assert late.verified_payload(cast, "gpu", sealed[:-1] + b"!", 0) is None
    assert len(checked) == 2
    late.sign_message(
        NotifyAck(cast, late.name, Outcome.TAKEN)
    ).signed()  # it has signed something else since
    assert late.verified_payload(cast, "gpu", sealed, 0) is None
    assert len(checked) == 3


class Refusing:
    """Finds nothing sound, and notes what it was asked."""

    def __init__(self, checked):
        self._checked = checked

    def verify(self, public, data, signature):
        self._checked.append(data)
        return False


class Counting:
    """Signs, and notes what."""

    def __init__(self, signer, signed):
        self._signer, self._signed, self.public = signer, signed, signer.public

    def sign(self, data):
        self._signed.append(data)
        return self._signer.sign(data)


def test_only_whom_the_authority_allows_says_what_is_protected(authority):
    ann, bob = node(authority, "ann"), node(authority, "bob")
    allow = [
        "authority",
        "allow",
        "ann",
        "role = doctor",
        "--authority",
        str(authority),
        "--node",
        str(ann),
    ]
    assert CliRunner().invoke(main, allow).exit_code == 0
    keeper, about = speaker(bob), ("entry", 1)

    for folder, is_allowed in ((ann, True), (bob, False)):
        signing = speaker(folder)
        assert (
            keeper.verify_proof(signing.name, about, signing.prove(about, DOCTOR), DOCTOR)
            == is_allowed
        )
        eu = description("eu")
        assert keeper.verify_proof(signing.name, about, signing.prove(about, eu), eu), (
            "what is not protected anybody may say"
        )
    nurse = description("staff:nurse")
    assert not keeper.verify_proof(
        speaker(ann).name, about, speaker(ann).prove(about, nurse), nurse
    )


def test_a_right_is_of_one_name_and_ends(authority):
    ann, bob = node(authority, "ann"), node(authority, "bob")
    allow = [
        "authority",
        "allow",
        "ann",
        "role = doctor",
        "--authority",
        str(authority),
        "--node",
        str(ann),
    ]
    CliRunner().invoke(main, allow)
    anns, bobs, about = speaker(ann), speaker(bob), ("entry", 1)
    proof = anns.prove(about, DOCTOR)
    stolen = bobs.prove(about) + proof[len(bobs.prove(about)) :]

    assert not anns.verify_proof(bobs.name, about, stolen, DOCTOR)
    keeper = speaker(bob)
    keeper._host.now_us = 1 << 61
    assert not keeper.verify_proof(anns.name, about, proof, DOCTOR)


def test_a_key_that_the_authority_never_saw_says_nothing_and_one_that_is_expelled_neither(
    authority, tmp_path
):
    ann, stranger = node(authority, "ann"), tmp_path / "stranger"
    stranger.mkdir()
    own_key(stranger / "node.key")
    keeper, about = speaker(ann), ("entry", 1)
    strange, anns = speaker(stranger), speaker(node(authority, "bob"))

    assert not keeper.verify_proof(strange.name, about, strange.prove(about))
    assert keeper.verify_proof(anns.name, about, anns.prove(about))
    keeper.expel({anns.name})
    assert not keeper.verify_proof(anns.name, about, anns.prove(about))


def test_what_is_not_protected_cannot_be_allowed_and_nobody_unknown_is(authority):
    node(authority, "ann")
    for label, text in (("ann", "eu"), ("zoe", "role = doctor")):
        said = CliRunner().invoke(
            main, ["authority", "allow", label, text, "--authority", str(authority)]
        )
        assert said.exit_code == 2, said.output


def test_a_certificate_of_before_is_refused_with_a_sentence(authority, tmp_path):
    folder = node(authority, "ann")
    root = CertificateAuthority.open(authority)
    key, public = read_key(authority / "authority.key"), own_key(folder / "node.key").public_key()
    old = node_certificate(key, root.root, public, 7)
    (folder / "node.pem").write_bytes(pem(old))
    with pytest.raises(IdentityError, match="has no grant for signing"):
        speaker(folder)


def test_nodes_of_one_process_share_what_they_found_sound_and_nothing_else(monkeypatch):
    shared, worked_out = VerificationCache(), []
    real = Ed25519.verify
    monkeypatch.setattr(Ed25519, "verify", lambda *given: worked_out.append(given) or real(*given))
    ann, bob = Ed25519().signer(b"a" * 32), Ed25519().signer(b"b" * 32)
    signature = ann.sign(b"hello")

    assert all(shared.verify(ann.public, b"hello", signature) for _ in range(3))
    assert len(worked_out) == 1
    assert not shared.verify(bob.public, b"hello", signature)
    assert not shared.verify(ann.public, b"hallo", signature)
    assert not shared.verify(ann.public, b"hello", bob.sign(b"hello"))
    assert not shared.verify(ann.public, b"hallo", signature), "nor when it is asked again"
    assert len(worked_out) == 5
