"""Members are told until they confirm, and what became of it is counted."""

from implicast.casting.inbox import Outcome
from implicast.casting.telling import AT_ONCE_MAX, PATIENCE, Got, Hearing, Notify, Teller
from implicast.language.parse import description, parse
from implicast.peer.asking import Asker, Late
from implicast.peer.contract import CastId, Contact
from implicast.peer.ledger import Ledger
from implicast.peer.member import Member
from implicast.peer.name import name_of
from sites import lone_site

NAMES = [name_of(b"net", number) for number in range(6)]
MEMBERS = [Contact(name, number) for number, name in enumerate(NAMES)]
NOTIFY = Notify(CastId(NAMES[0], 1, 1), parse("jazz"), b"x")


def a_teller(assured=True):
    ledger, ended = Ledger(), []
    asker = Asker(9, ledger)
    return (
        Teller(9, ledger, asker, assured, lambda cast, told: ended.append(told)),
        asker,
        ledger,
        ended,
    )


def got(number, outcome):
    return Got(NOTIFY.cast, NAMES[number], outcome)


def test_without_receipts_each_is_told_once_and_nothing_is_counted():
    teller, asker, ledger, ended = a_teller(assured=False)
    teller.tell(NOTIFY, MEMBERS)

    assert ledger.sent() == [(number, NOTIFY) for number in range(6)]
    assert not teller.casts
    assert not len(asker)
    assert not ended


def test_outcomes_are_counted_and_add_up():
    teller, asker, ledger, ended = a_teller()
    teller.tell(NOTIFY, MEMBERS)
    for number, outcome in enumerate(
        (Outcome.TAKEN, Outcome.REPEAT, Outcome.UNFIT, Outcome.BLOCKED, Outcome.TAKEN)
    ):
        teller.on_got(number, got(number, outcome))
        told = teller.casts[NOTIFY.cast]
        assert told.open + told.notified + told.declined + told.unreachable == 6

    for _ in range(PATIENCE.times):
        ledger.now_us += PATIENCE.first_us
        asker.on_late(Late())

    (told,) = ended
    assert (told.open, told.notified, told.declined, told.unreachable) == (0, 3, 2, 1)
    assert told.silent == [NAMES[5]]
    assert len([entry for entry in ledger.sent() if entry[0] == 5]) == PATIENCE.times


def test_a_full_member_is_told_again():
    teller, asker, ledger, ended = a_teller()
    teller.tell(NOTIFY, MEMBERS[:1])
    teller.on_got(0, got(0, Outcome.FULL))
    ledger.now_us += PATIENCE.first_us
    asker.on_late(Late())
    assert len(ledger.sent()) == 2

    teller.on_got(0, got(0, Outcome.TAKEN))
    assert ended[0].notified == 1


def test_nobody_confirms_for_another():
    teller, _, _, ended = a_teller()
    teller.tell(NOTIFY, MEMBERS[:1])

    teller.on_got(0, got(3, Outcome.TAKEN))
    teller.on_got(3, got(0, Outcome.TAKEN))

    assert teller.casts[NOTIFY.cast].open == 1
    assert not ended


def two_at_one_address():
    """A cast for two names of one address: whoever lives there now hears both words, and takes the first."""
    teller, asker, ledger, ended = a_teller()
    teller.tell(NOTIFY, [Contact(NAMES[1], 7), Contact(NAMES[2], 7), MEMBERS[3]])
    teller.on_got(7, got(2, Outcome.TAKEN))
    teller.on_got(7, got(2, Outcome.REPEAT))
    teller.on_got(3, got(3, Outcome.TAKEN))
    return teller, asker, ledger, ended


def late(asker, ledger):
    ledger.now_us += PATIENCE.first_us
    asker.on_late(Late())


def test_a_name_is_given_up_when_another_answers_at_its_address_the_second_time():
    teller, asker, ledger, ended = two_at_one_address()
    assert teller.casts[NOTIFY.cast].open == 1, "it may answer yet"

    late(asker, ledger)
    teller.on_got(7, got(2, Outcome.REPEAT))

    (told,) = ended
    assert (told.open, told.notified, told.declined, told.unreachable) == (0, 2, 0, 1)
    assert told.silent == [NAMES[1]]
    assert not len(asker)
    assert not teller._together


def test_a_name_at_a_shared_address_that_answers_late_counts():
    teller, asker, ledger, ended = two_at_one_address()
    late(asker, ledger)

    teller.on_got(7, got(1, Outcome.TAKEN))
    teller.on_got(7, got(2, Outcome.REPEAT))

    assert [(told.notified, told.unreachable) for told in ended] == [(3, 0)]


def test_nobody_is_given_up_for_the_word_of_one_that_is_not_listed_at_its_address():
    teller, asker, ledger, ended = two_at_one_address()
    late(asker, ledger)

    for number, outcome in ((3, Outcome.REPEAT), (4, Outcome.UNFIT)):
        teller.on_got(7, got(number, outcome))
    teller.on_got(3, got(2, Outcome.REPEAT))

    assert teller.casts[NOTIFY.cast].open == 1
    assert not ended


def test_a_group_of_nobody_ends_at_once():
    teller, _, _, ended = a_teller()
    teller.tell(NOTIFY, [])

    assert ended[0].open == 0


def test_a_group_larger_than_is_told_at_once_is_told_in_turn_and_whole():
    teller, _, ledger, ended = a_teller()
    group = [Contact(name_of(b"many", number), number) for number in range(AT_ONCE_MAX + 10)]
    teller.tell(NOTIFY, group)
    assert len(ledger.sent()) == AT_ONCE_MAX

    for contact in group:
        teller.on_got(contact.address, Got(NOTIFY.cast, contact.name, Outcome.TAKEN))

    assert len(ledger.sent()) == 10
    assert ended[0].notified == len(group)


class Plain(Member, parts={"hearing": Hearing}):
    def __init__(self, site):
        super().__init__(site)
        self.hearing = Hearing(self)

    def join(self, introducers):
        pass

    leave = withdraw = register = cast = join


def test_a_member_confirms_by_name_what_became_of_it():
    ledger = Ledger()
    member = Plain(lone_site(1, ledger))
    member.description = description("jazz")

    for _ in range(2):
        member.receive(9, NOTIFY)

    confirmed = [
        Got(NOTIFY.cast, member.name, outcome) for outcome in (Outcome.TAKEN, Outcome.REPEAT)
    ]
    assert ledger.sent() == [(9, each) for each in confirmed]
    assert member.strays == 0
    member.receive(9, got(1, Outcome.TAKEN))
    assert member.strays == 1, "a confirmation is not for a member that tells nobody"
