"""Anybody speaks for anybody: believed where words are not signed, and never where they are."""

import pytest
from forger import KINDS, Scene

from implicast.casting.designs import designs

pytestmark = pytest.mark.usefixtures("readable_core")

FEW, MANY = 1_500, 100_000
OPEN = [name for name in designs() if name != "bft"]
"""Designs that believe everybody unless words are signed."""
KEEPING = [name for name in OPEN if name != "condcast"]
"""Designs in which others keep what a peer is: in condcast they keep aggregates, and the peer itself decides."""


@pytest.mark.parametrize("name", KEEPING)
def test_forged_registrations_are_believed_where_nothing_is_signed(name, tmp_path):
    scene = Scene(name, tmp_path, signed=False)
    before = scene.kept()
    scene.forge("registrations", FEW)

    assert scene.kept() != before


@pytest.mark.parametrize("name", OPEN)
def test_forged_casts_are_believed_where_nothing_is_signed(name, tmp_path):
    scene = Scene(name, tmp_path, signed=False)
    scene.forge("casts", FEW)

    assert scene.told()


def unbelieved(name, directory, count):
    for what in KINDS:
        scene = Scene(name, directory / what, signed=True)
        before = scene.kept()
        sent = scene.forge(what, count)
        assert scene.kept() == before, f"{name} believed forged {what}"
        assert not scene.told(), f"{name} believed forged {what}"
        assert sent == count or name == "bft" or (name == "condcast" and what != "casts")


@pytest.mark.parametrize("name", designs())
def test_nothing_forged_is_believed_where_words_are_signed(name, tmp_path):
    unbelieved(name, tmp_path, FEW)


@pytest.mark.parametrize("name", KEEPING)
def test_nobody_confirms_for_the_dead_where_words_are_signed(name, tmp_path):
    believed = Scene(name, tmp_path / "bare", signed=False).forge_receipts(100)
    signed = Scene(name, tmp_path / "signed", signed=True).forge_receipts(100)

    assert [each.unreachable + each.uncertain for each in believed] == [0]
    # The client of a broker may have become the client of another broker: that is uncertain.
    assert [(each.unreachable, each.uncertain) for each in signed] == [
        (0, 1) if name == "broker" else (1, 0)
    ]
    assert signed[0].notified == believed[0].notified - 1


@pytest.mark.long
@pytest.mark.parametrize("name", OPEN)
def test_a_hundred_thousand_forged_words_of_each_kind_are_not_believed(name, tmp_path):
    unbelieved(name, tmp_path, MANY)
