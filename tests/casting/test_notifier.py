"""Members are told until they confirm, and what became of it is counted."""

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import (
    AT_ONCE_MAX,
    RETRY,
    Acks,
    Notifier,
    Notify,
    NotifyAck,
    Receiver,
    UncountedNotifier,
)
from implicast.language.parse import description, parse
from implicast.peer.contract import CastId, Contact
from implicast.peer.ledger import Ledger
from implicast.peer.member import Member
from implicast.peer.name import name_of
from implicast.peer.requests import Requests, RequestTimeout
from sites import lone_site, sealed

NAMES = [name_of(b"net", number) for number in range(6)]
MEMBERS = [Contact(name, number) for number, name in enumerate(NAMES)]
NOTIFY = Notify(CastId(NAMES[0], 1, 1), parse("jazz"), sealed(b"x"))


def a_teller(assured=True):
    ledger, ended = Ledger(), []
    requests = Requests(9, ledger)
    return (
        (Notifier if assured else UncountedNotifier)(
            9, ledger, requests, lambda cast, tally: ended.append(tally)
        ),
        requests,
        ledger,
        ended,
    )


def ack(number, outcome):
    return NotifyAck(NOTIFY.cast, NAMES[number], outcome)


def test_without_receipts_each_is_told_once_and_nothing_is_counted():
    notifier, requests, ledger, ended = a_teller(assured=False)
    notifier.notify_members(NOTIFY, MEMBERS)

    assert ledger.sent() == [(number, NOTIFY) for number in range(6)]
    assert not notifier.casts
    assert not len(requests)
    assert not ended


def test_outcomes_are_counted_and_add_up():
    notifier, requests, ledger, ended = a_teller()
    notifier.notify_members(NOTIFY, MEMBERS)
    for number, outcome in enumerate(
        (Outcome.TAKEN, Outcome.REPEAT, Outcome.UNFIT, Outcome.BLOCKED, Outcome.TAKEN)
    ):
        notifier.on_notify_ack(number, ack(number, outcome))
        tally = notifier.casts[NOTIFY.cast]
        assert tally.open + tally.notified + tally.declined + tally.unreachable == 6

    for _ in range(RETRY.times):
        ledger.now_us += RETRY.first_us
        requests.on_request_timeout(RequestTimeout())

    (tally,) = ended
    assert (tally.open, tally.notified, tally.declined, tally.unreachable) == (0, 3, 2, 1)
    assert tally.silent == (NAMES[5],)
    assert len([entry for entry in ledger.sent() if entry[0] == 5]) == RETRY.times


def test_a_full_member_is_told_again():
    notifier, requests, ledger, ended = a_teller()
    notifier.notify_members(NOTIFY, MEMBERS[:1])
    notifier.on_notify_ack(0, ack(0, Outcome.FULL))
    ledger.now_us += RETRY.first_us
    requests.on_request_timeout(RequestTimeout())
    assert len(ledger.sent()) == 2

    notifier.on_notify_ack(0, ack(0, Outcome.TAKEN))
    assert ended[0].notified == 1


def test_nobody_confirms_for_another():
    notifier, _, _, ended = a_teller()
    notifier.notify_members(NOTIFY, MEMBERS[:1])

    notifier.on_notify_ack(0, ack(3, Outcome.TAKEN))
    notifier.on_notify_ack(3, ack(0, Outcome.TAKEN))

    assert notifier.casts[NOTIFY.cast].open == 1
    assert not ended


def two_at_one_address():
    """A cast for two names of one address: whoever lives there now hears both words, and takes the first."""
    notifier, requests, ledger, ended = a_teller()
    notifier.notify_members(NOTIFY, [Contact(NAMES[1], 7), Contact(NAMES[2], 7), MEMBERS[3]])
    notifier.on_notify_ack(7, ack(2, Outcome.TAKEN))
    notifier.on_notify_ack(7, ack(2, Outcome.REPEAT))
    notifier.on_notify_ack(3, ack(3, Outcome.TAKEN))
    return notifier, requests, ledger, ended


def late(requests, ledger):
    ledger.now_us += RETRY.first_us
    requests.on_request_timeout(RequestTimeout())


def test_a_name_is_given_up_when_another_answers_at_its_address_the_second_time():
    notifier, requests, ledger, ended = two_at_one_address()
    assert notifier.casts[NOTIFY.cast].open == 1, "it may answer yet"

    late(requests, ledger)
    notifier.on_notify_ack(7, ack(2, Outcome.REPEAT))

    (tally,) = ended
    assert (tally.open, tally.notified, tally.declined, tally.unreachable) == (0, 2, 0, 1)
    assert tally.silent == (NAMES[1],)
    assert not len(requests)
    assert not notifier.sharing_address


def test_a_name_at_a_shared_address_that_answers_late_counts():
    notifier, requests, ledger, ended = two_at_one_address()
    late(requests, ledger)

    notifier.on_notify_ack(7, ack(1, Outcome.TAKEN))
    notifier.on_notify_ack(7, ack(2, Outcome.REPEAT))

    assert [(tally.notified, tally.unreachable) for tally in ended] == [(3, 0)]


def test_nobody_is_given_up_for_the_word_of_one_that_is_not_listed_at_its_address():
    notifier, requests, ledger, ended = two_at_one_address()
    late(requests, ledger)

    for number, outcome in ((3, Outcome.REPEAT), (4, Outcome.UNFIT)):
        notifier.on_notify_ack(7, ack(number, outcome))
    notifier.on_notify_ack(3, ack(2, Outcome.REPEAT))

    assert notifier.casts[NOTIFY.cast].open == 1
    assert not ended


def test_a_group_of_nobody_ends_at_once():
    notifier, _, _, ended = a_teller()
    notifier.notify_members(NOTIFY, [])

    assert ended[0].open == 0


def test_a_group_larger_than_is_told_at_once_is_told_in_turn_and_whole():
    notifier, _, ledger, ended = a_teller()
    group = [Contact(name_of(b"many", number), number) for number in range(AT_ONCE_MAX + 10)]
    notifier.notify_members(NOTIFY, group)
    assert len(ledger.sent()) == AT_ONCE_MAX

    for contact in group:
        notifier.on_notify_ack(contact.address, NotifyAck(NOTIFY.cast, contact.name, Outcome.TAKEN))

    assert len(ledger.sent()) == 10
    assert ended[0].notified == len(group)


class Plain(Member, parts={"receiver": Receiver}):
    def __init__(self, site):
        super().__init__(site)
        self.receiver = Receiver(site, self.policy, self.fit, Acks(site).acknowledge)

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
        NotifyAck(NOTIFY.cast, member.name, outcome) for outcome in (Outcome.TAKEN, Outcome.REPEAT)
    ]
    assert ledger.sent() == [(9, each) for each in confirmed]
    assert member.strays == 0
    member.receive(9, ack(1, Outcome.TAKEN))
    assert member.strays == 1, "a confirmation is not for a member that tells nobody"
