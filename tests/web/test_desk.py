"""The desk: letters kept, sent once, found quickly; tags from what one reads; nothing lost when a node falls."""

import socket
import time
from urllib.parse import urlsplit

import pytest
from stage import Stage

from implicast.casting.client_registry import RegisterAck
from implicast.casting.inbox import Outcome
from implicast.casting.notifier import NotifyAck
from implicast.language.parse import parse
from implicast.language.rules import Rule
from implicast.net.commands.local import MemberSpec
from implicast.peer.contract import CastId
from implicast.web.app import bound
from implicast.web.demo import bibliographies, conversations, folder_of, researchers
from implicast.web.drafts import Words, plain_name
from implicast.web.letter import Letter, packed
from implicast.web.letters import PLAIN
from implicast.web.mailbox import Mailbox, MailboxError
from implicast.web.pages import Pages
from implicast.web.passing import CASTS_MAX, STEPS_MAX, Passing
from implicast.web.reading import ReadingError, proposal

MESSAGES = 10_000
PAGE_CPU_S, SEARCH_S = 0.3, 0.1


def until(stage, done, seconds=15):
    deadline = time.monotonic() + seconds
    while not (found := stage.do(done)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def send(stage, name, target, subject, text, **more):
    desk = stage.desk(name)
    words = Words(target, subject, text, **more)
    return stage.do(lambda: desk.send(desk.drafts.begin(words, 1), words, delay_s=0.0))


def letters(stage, name):
    return stage.do(lambda: [dict(row) for row in stage.desk(name).letters.page(None, 0)])


def test_ports_of_pages_are_not_given_away_before_they_are_served():
    pages = Pages([MemberSpec("ann", "jazz"), MemberSpec("bob", "jazz")], 0)
    for name in ("ann", "bob"):
        port = urlsplit(pages.address(name)).port
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for _ in range(2):  # and again when the node starts again
            with bound(port) as served:
                served.listen()


def test_a_letter_is_written_read_and_answered(stage):
    uid = send(stage, "ann", "football", "Sunday", "Who *plays*?")
    row = until(
        stage,
        lambda: [each for each in stage.desk("bob").letters.page(None, 0) if each["uid"] == uid],
    )[0]
    assert (row["target"], row["author"], row["subject"]) == ("football", "ann", "Sunday")
    client = stage.client("bob")
    draft = client.post(f"/reply/{row['id']}", data={"to": "author"}).headers["location"]
    page = client.get(draft).text
    assert "alone" in page
    sent = client.post(f"{draft}/send", data={"subject": "Re: Sunday", "body": "I do"}).headers[
        "location"
    ]
    assert "Take it back" in client.get(sent).text
    stage.desk("bob").take_back_s = 0.0
    until(stage, lambda: any(each["alone"] for each in stage.desk("ann").letters.page(None, 0)))
    answer = next(each for each in letters(stage, "ann") if each["alone"])
    assert (answer["thread"], answer["body"]) == (uid, "I do")
    deadline = time.monotonic() + 15
    while (
        "1 of 1" not in client.get(f"{sent}/receipt").text
    ):  # the answer is read before its author is told so
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_network_page_shows_which_casts_pass_and_between_whom(stage):
    send(stage, "ann", "football", "A cast that passes", "x")
    client = stage.client("bob")
    until(
        stage,
        lambda: [
            each for each in stage.desk("bob").letters.page(None, 0) if "passes" in each["subject"]
        ],
    )

    def looked():
        return client.get("/network/now", headers={"accept": "application/json"}).json()

    while (shown := looked())["casts"][0]["went"] < 1:  # what confirms it leaves when it is on disk
        time.sleep(0.02)
    cast = shown["casts"][0]
    assert cast["letter"]["subject"] == "A cast that passes"
    assert (cast["label"], cast["publisher"]) == ("ann", stage.desk("ann").name)
    assert (cast["came"], cast["went"]) == (1, 1), "told, and confirmed"
    server = next(
        each for each in shown["peers"] if each["address"] == shown["peers"][0]["address"]
    )
    assert {(each["x1"], each["y1"]) for each in shown["flights"] if each["came"]} <= {
        (server["x"], server["y"])
    }
    assert "A cast that passes" in client.get("/network").text


def test_passing_forgets_the_oldest_and_leaves_upkeep_and_counting_out():
    passing = Passing()
    for serial in range(1000):
        passing.see(True, 1, NotifyAck(CastId(b"a" * 16, 1, serial), b"b" * 16, Outcome.TAKEN))
        passing.see(False, 2, RegisterAck((1, serial)))
    assert (passing.came, passing.went, len(passing.steps)) == (1000, 0, STEPS_MAX)
    assert [each.cast.serial for each in passing.newest()] == [*range(999, 999 - CASTS_MAX, -1)]


def test_what_is_taken_back_nobody_sees_and_it_is_a_draft_again(stage):
    client = stage.client("ann")
    stage.desk("ann").take_back_s = 5.0
    draft = client.post("/write/new", data={"target": "football"}).headers["location"]
    sent = client.post(
        f"{draft}/send", data={"target": "football", "subject": "oops", "body": "x"}
    ).headers["location"]
    assert client.get(draft).status_code == 404, "it is on its way"
    assert client.post(f"{sent}/take-back").headers["location"].startswith(draft)
    assert "oops" in client.get(draft).text
    assert all(each["subject"] != "oops" for each in letters(stage, "bob"))


def test_a_target_is_checked_while_it_is_typed(stage):
    client = stage.client("ann")
    assert 'data-column="12"' in client.get("/write/check", params={"target": "football & )"}).text
    said = client.get("/write/check", params={"target": "jazz & football"}).text
    assert "jazz" in said
    assert "1 person" in said
    assert "Nobody, at the moment" in client.get("/write/check", params={"target": "tango"}).text


def test_rules_of_others_are_offered_from_three_names_on_and_ones_own_at_once(stage):
    desk = stage.desk("ann")

    def told(names):
        for number in range(names):
            desk.thesaurus.hear(
                CastId(bytes([number + 1]) * 16, 1, 1), [Rule("samba", "UF", "batucada")]
            )
        return [offer.other for offer in desk.thesaurus.offers(parse("samba"))]

    assert stage.do(told, 2) == []
    assert stage.do(told, 3) == ["batucada"]
    client = stage.client("ann")
    draft = client.post("/write/new", data={"target": "samba"}).headers["location"]
    client.post(
        f"{draft}/widen", data={"target": "samba", "offer": "samba\x1fbatucada", "body": "kept"}
    )
    page = client.get(draft).text
    assert 'value="batucada | samba"' in page
    assert "kept" in page


def test_a_later_list_of_rules_replaces_an_earlier_one_and_never_the_other_way_round(stage):
    desk, who = stage.desk("ann"), b"\x77" * 16
    one, other = Rule("a", "RT", "b"), Rule("a", "RT", "c")
    assert stage.do(desk.thesaurus.hear, CastId(who, 1, 5), [one])
    assert not stage.do(desk.thesaurus.hear, CastId(who, 1, 4), [other])
    assert stage.do(desk.thesaurus.of, who.hex()) == [one]
    assert stage.do(desk.thesaurus.hear, CastId(who, 2, 1), [])
    assert stage.do(desk.thesaurus.of, who.hex()) == []


def test_blocks_hide_and_show_again(stage):
    send(stage, "ann", "jazz", "noise", "Buy   CHEAP\ntickets")
    until(
        stage,
        lambda: any(each["subject"] == "noise" for each in stage.desk("bob").letters.page(None, 0)),
    )
    client = stage.client("bob")
    client.post("/blocks/add", data={"kind": "words", "what": "cheap tickets"})
    assert all(each["subject"] != "noise" for each in letters(stage, "bob"))
    assert "noise" in client.get("/blocks").text
    client.post("/blocks/remove", data={"kind": "words", "what": "cheap tickets"})
    assert any(each["subject"] == "noise" for each in letters(stage, "bob"))


def test_attachments_travel_and_names_are_only_names(stage):
    client = stage.client("ann")
    stage.desk("ann").take_back_s = 0.0
    draft = client.post("/write/new", data={"target": "jazz"}).headers["location"]
    files = {"file": ("../../evil name.txt", b"content")}
    assert client.post(f"{draft}/attach", data={"body": "see"}, files=files).status_code == 303
    client.post(f"{draft}/send", data={"target": "jazz", "subject": "file", "body": "see"})
    until(
        stage,
        lambda: any(each["subject"] == "file" for each in stage.desk("bob").letters.page(None, 0)),
    )
    row = next(each for each in letters(stage, "bob") if each["subject"] == "file")
    answer = stage.client("bob").get(f"/letter/{row['id']}/file/0")
    assert answer.content == b"content"
    assert "evil%20name.txt" in answer.headers["content-disposition"]
    assert plain_name("..\\..\\a\x00b") == "ab"
    assert plain_name("///") == "file"


def test_ten_thousand_letters_open_and_are_searched_quickly(tmp_path):
    stage = Stage(tmp_path)
    try:
        desk = stage.desk("ann")

        def fill():
            desk.mailbox.db.execute("pragma synchronous=off")
            for number in range(MESSAGES):
                text = f"letter {number} about {'privacy' if number % 5 else 'overlays'} and word{number % 977}"
                letter = Letter(
                    f"u{number}", f"tag{number % 40}", f"a{number % 300}", f"Subject {number}", text
                )
                desk.letters.take(CastId(bytes([number % 251]) * 16, 1, number), letter, number)

        stage.do(fill)
        client = stage.client("ann")
        client.get("/inbox")
        for path in ("/inbox", "/inbox?folder=tag3", "/inbox?page=199"):
            begun = time.process_time()
            assert client.get(path).status_code == 200
            assert time.process_time() - begun < PAGE_CPU_S, path
        assert "10,000" not in client.get("/inbox?page=500").text
        for text in ("word13", "privacy", "subj 77", "overlays word1"):
            begun = time.process_time()
            found = stage.do(desk.letters.search, text)
            assert time.process_time() - begun < SEARCH_S, text
            assert found
        found = {row["uid"] for row in stage.do(desk.letters.search, "word976 letter 976")}
        assert found == {"u976", "u9769"}
    finally:
        stage.stop()


def test_tags_from_a_bibliography_are_the_commonest_words(tmp_path):
    text = b"""@article{a, title = {Privacy of overlays}, keywords = {privacy}}
    @article{b, title = {The privacy of Bayesian overlays}} @article{c, broken"""
    found = proposal(text)
    assert found.tags[:2] == (("privacy", 3), ("overlays", 2))
    assert (found.papers, len(found.skipped)) == (2, 1)
    for nothing in (b"", b"not bibtex", b"\x00\x00"):
        with pytest.raises(ReadingError):
            proposal(nothing)


def test_the_demonstration_speaks_of_people_there_are():
    people = {each.name for each in researchers()}
    assert len(people) == len(bibliographies()) == 20
    said = conversations()
    for letter in said["letter"]:
        assert folder_of(letter["by"]) in people
        assert str(parse(letter["target"]))
        assert all(folder_of(answer["by"]) in people for answer in letter.get("answer", ()))
    assert all(folder_of(name) in people for name in said["rules"])


def test_a_file_of_a_later_version_is_refused_in_a_sentence(tmp_path):
    mailbox = Mailbox(tmp_path / "web.db")
    mailbox.db.execute("pragma user_version=99")
    mailbox.close()
    with pytest.raises(MailboxError, match="newer version"):
        Mailbox(tmp_path / "web.db")


def test_a_letter_that_names_a_target_it_was_not_sent_to_is_shown_without_one(stage):
    """Whom a letter was for is its author's word: it is believed only where it fits."""
    forged = Letter("forged", "name:somebody-else", "eve", "for you alone", "x", alone=True)
    stage.do(lambda: stage.node("ann").cast("jazz", packed(forged), wait=5.0))
    until(
        stage,
        lambda: any(each["uid"] == "forged" for each in stage.desk("bob").letters.page(None, 0)),
    )
    row = next(each for each in letters(stage, "bob") if each["uid"] == "forged")
    assert (row["target"], row["alone"]) == (PLAIN, 0)
