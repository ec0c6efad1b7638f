"""`implicast inbox --follow` bears that its node is started again."""

import pytest

from implicast.net.commands import cli, control


def test_it_goes_on_when_the_node_is_back_and_shows_nothing_twice(monkeypatch, tmp_path, capsys):
    incarnations = [[{"cast": "a"}, {"cast": "b"}], [{"cast": "b"}, {"cast": "c"}], [{"cast": "c"}]]

    def ask(folder, request, timeout_s=None):
        if request["do"] == "status":
            yield {}
            return
        yield from incarnations.pop(0)
        if incarnations:
            raise control.StoppedError("the node stopped")

    monkeypatch.setattr(control, "ask", ask)
    found = [
        note["cast"]
        for note in cli.inbox_messages(tmp_path, {"do": "inbox", "follow": True, "keep": True})
    ]

    assert found == ["a", "b", "c"]
    assert capsys.readouterr().err.count("waiting until it restarts") == 2


def test_without_follow_a_node_that_stops_is_an_error(monkeypatch, tmp_path):
    def ask(folder, request, timeout_s):
        yield {"cast": "a"}
        raise control.StoppedError("the node stopped")

    monkeypatch.setattr(control, "ask", ask)
    with pytest.raises(control.ControlError, match="stopped"):
        list(cli.inbox_messages(tmp_path, {"do": "inbox", "follow": False, "keep": False}))
