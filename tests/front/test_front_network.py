"""A network in one process: everybody described is reached, once, in every design."""

import pytest

from implicast import Network
from implicast.casting.designs import designs
from implicast.front.network import NotDone

PEOPLE = {
    "ann": "samba, football",
    "bob": "jazz, football",
    "cy": "jazz, chess",
    "dee": "samba, football, chess",
}


def a_network(name):
    net = Network(name)
    for who, text in PEOPLE.items():
        net.peer(text, name=who)
    return net


@pytest.mark.parametrize("name", list(designs()))
def test_everybody_described_is_reached_once_and_reads_it(name):
    net = a_network(name)

    receipt = net.cast("(samba | jazz) & football", b"hi", by="cy")

    assert sorted(receipt.reached) == ["ann", "bob", "dee"]
    assert (receipt.expected, receipt.notified, receipt.open) == (3, 3, 0)
    assert [(each.publisher, each.payload) for each in net.peers["bob"].inbox()] == [("cy", b"hi")]
    assert net.peers["cy"].inbox() == []
    assert receipt.latency_ms > 0


@pytest.mark.parametrize("name", list(designs()))
def test_who_describes_itself_anew_withdraws_or_leaves_is_reached_no_more(name):
    net = a_network(name)
    net.peers["ann"].describe("chess")
    net.peers["bob"].withdraw()
    net.peers["dee"].leave()

    receipt = net.cast("football | samba", b"x", by="cy")

    assert receipt.reached == ()
    assert receipt.expected == receipt.declined, "lists may name who has changed, and it declines"
    assert net.peers["ann"].cast("chess").reached != ()


def test_nobody_matched_is_told_apart_from_nobody_there():
    net = Network("centralised")
    with pytest.raises(NotDone, match="add one first"):
        net.cast("jazz")

    net.peer("samba", "ann")

    assert net.cast("jazz").expected == 0


def test_names_are_taken_once_and_unknown_publishers_are_refused():
    net = a_network("centralised")

    with pytest.raises(NotDone, match="already"):
        net.peer("jazz", "ann")
    with pytest.raises(NotDone, match="there are: ann, bob"):
        net.cast("jazz", by="eve")


def test_attributes_have_a_schema():
    net = Network("condcast", schema="price: 0..1000 by 0.01")
    net.peer("fruit, price = 8.45", "apples")
    net.peer("fruit, price = 12", "pears")

    assert net.cast("fruit & price < 10").reached == ("apples",)


def test_values_print_well():
    net = a_network("centralised")
    receipt = net.cast("samba & football")

    assert repr(net.peers["ann"]) == "<Peer ann: football, samba>"
    assert "samba &amp; football" in receipt._repr_html_()
    assert list(net.measures.columns) == ["sent", "received", "notified"]
    assert net.measures.loc["ann", "notified"] == 1


def test_same_seed_same_story():
    one, other = (a_network("spice-unloaded") for _ in range(2))

    assert one.cast("football") == other.cast("football")
    assert one.steps() == other.steps()
