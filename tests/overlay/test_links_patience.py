"""A node that lives is not passed over for a few lost questions, and one that died is found no later for that. Who was
passed over all the same comes back as soon as somebody near speaks to it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from implicast.casting.designs import designs
from implicast.overlay.links import Above, Links, LinkSettings, Ref
from implicast.overlay.links.messages import CheckLink, Found, Stat
from implicast.overlay.links.walks import MISSED_TRIES, RetryCheck
from implicast.peer.contract import Address, Host, Peer
from implicast.peer.ledger import Ledger
from implicast.peer.liveness import Detector, DetectorSettings
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import UPKEEP
from implicast.world.populations.links import assemble_ring, ring_objections
from implicast.world.world import World

S = 1_000_000
LIVING = LinkSettings.living(check_us=7 * S, merge_us=0)
"""Nobody looks from outside: what comes back from there is a word as well, and may save the silent one."""
BEFORE = replace(LIVING, tries=5, rto_cap_us=2 * S)
"""The spec's questions: fewer, in the same time."""
SILENT, OBSERVER = 20, 30
RINGS = ("dht", "dht-naive", "chord-pubsub", "opchord-pubsub", "condcast")


class Watched(Above):
    """Counts suspicions."""

    __slots__ = ("_suspected",)

    def __init__(self, suspected: Callable[[], None]) -> None:
        self._suspected = suspected

    def silent(self, ref: Ref) -> None:
        self._suspected()


class Node(Peer, parts={"links": Links, "detector": Detector}):
    __slots__ = ("detector", "links")

    def __init__(
        self, address: Address, host: Host, settings: LinkSettings, suspected: Callable[[], None]
    ) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, int(str(address)), settings)
        self.detector = self.links.detector
        self.links.above = Watched(suspected)


class Near:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Deaf:
    """Of what the observer asks its neighbour, the first so many words get lost."""

    def __init__(self, lost: float) -> None:
        self.lost, self.asked = lost, 0

    def fate(self, now_us: int, sender: int, receiver: int, latency_us: int) -> tuple[int, ...]:
        self.asked += (sender, receiver) == (OBSERVER, SILENT)
        return (
            ()
            if (sender, receiver) == (OBSERVER, SILENT) and self.asked <= self.lost
            else (latency_us,)
        )


class Standing:
    """A ring that stands, and how often somebody in it was suspected."""

    def __init__(
        self, addresses: range, settings: LinkSettings, faults: Deaf | FaultStream
    ) -> None:
        self.suspicions = 0
        self.world = World(Near(), 1, faults=faults)
        self.nodes = {
            each: Node(each, self.world.host(each), settings, self.suspected) for each in addresses
        }
        for address, node in self.nodes.items():
            self.world.place(address, node)
        assemble_ring([node.links for node in self.nodes.values()])

    def suspected(self) -> None:
        self.suspicions += 1

    def objections(self) -> list[str]:
        return ring_objections([node.links for node in self.nodes.values()])


def false_suspicions(settings: LinkSettings) -> int:
    """Among 64 nodes in an hour, one message in eight lost."""
    ring = Standing(range(64), settings, FaultStream(Faults(loss=0.125), 1))
    ring.world.run(3600 * S)
    return ring.suspicions


def test_six_lost_questions_in_a_row_pass_nobody_over() -> None:
    ring = Standing(range(10, 60, 10), LIVING, Deaf(lost=6))

    ring.world.run(60 * S)

    assert ring.suspicions == 0
    assert ring.objections() == []


def test_one_that_was_passed_over_although_it_lives_is_back_at_once() -> None:
    ring = Standing(range(10, 60, 10), LIVING, Deaf(lost=7))
    open_us = []
    for at_us in range(0, 60 * S, S // 10):
        ring.world.run(at_us)
        open_us += [at_us] if ring.objections() else []

    assert open_us, "it was passed over"
    assert open_us[-1] - open_us[0] < S, "it is told, and does not wait for its next look"


def test_with_five_questions_the_same_losses_pass_a_live_neighbour_over() -> None:
    ring = Standing(range(10, 60, 10), BEFORE, Deaf(lost=6))

    ring.world.run(60 * S)

    assert ring.suspicions > 0


def test_who_stays_silent_is_passed_over_in_the_time_it_took_before() -> None:
    ring = Standing(range(10, 60, 10), LIVING, Deaf(lost=float("inf")))
    ring.world.at(0, UPKEEP, lambda: ring.world.crash(SILENT))

    ring.world.run(int(1.5 * LIVING.check_us + 1.5 * 5.75 * S) + S)

    assert ring.nodes[OBSERVER].links.left.address == 10
    assert ring.nodes[10].links.right.address == OBSERVER


def test_seven_questions_take_no_longer_than_the_five_of_the_spec() -> None:
    detector = Standing(range(10, 60, 10), LIVING, Deaf(lost=0)).nodes[OBSERVER].detector
    assert detector is not None

    assert detector.settings.tries == 7
    assert detector.settings.patience_us() == DetectorSettings().patience_us() == 5_750_000


@pytest.mark.parametrize("name", RINGS)
def test_every_design_on_a_ring_asks_as_often_as_that(name: str) -> None:
    asked = {parameter.name: parameter.default for parameter in designs()[name].parameters}["tries"]

    assert asked == LIVING.tries


@pytest.mark.parametrize("name", RINGS)
def test_who_is_quick_asks_often_too(name: str) -> None:
    quick = designs()[name].quick
    check_us = int(quick["check_ms"] * 1000 if "check_ms" in quick else quick["check_s"] * S)
    settings = LinkSettings.living(check_us, quick["tries"])
    waits_us = [
        min(settings.rto_us << tried, settings.rto_cap_us) for tried in range(settings.tries)
    ]

    assert sum(waits_us) <= 2.75 * S, "the quick are quick"
    assert (1 - 0.95**2) ** settings.tries < 1e-5, "one message in twenty lost"


def test_in_the_same_time_seven_questions_suspect_the_living_far_more_rarely_than_five() -> None:
    five, seven = false_suspicions(BEFORE), false_suspicions(LIVING)

    assert five >= 5, "the trial is hard enough to tell"
    assert seven <= five / 5, (five, seven)


def fallen_together(act: Callable[[dict[int, Links]], None]) -> Standing:
    """Two next to each other, 20 and 30, died when something happened; so long as one is found silent has passed."""
    ring = Standing(range(10, 70, 10), LIVING, Deaf(lost=0))

    def happen() -> None:
        for address in (20, 30):
            ring.world.crash(address)
        act({address: node.links for address, node in ring.nodes.items()})

    ring.world.at(0, UPKEEP, happen)
    ring.world.run(int(1.5 * 5.75 * S) + S // 2)
    return ring


def test_a_hint_at_one_that_died_since_costs_no_time_of_its_own() -> None:
    ring = fallen_together(lambda nodes: nodes[40].walks.look_from(nodes[20].me))

    assert ring.nodes[40].links.left.address == 10, "those on its left were asked meanwhile"
    assert ring.nodes[10].links.right.address == 40


class Vain:
    """A node whose left neighbour answers nothing."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        nodes = [Links(each, self.ledger, each, LIVING) for each in range(10, 60, 10)]
        assemble_ring(nodes)
        self.refs = {node.address: node.me for node in nodes}
        self.node = nodes[2]
        self.ledger.take()

    def asks(self, heard_after: tuple[int, ...]) -> int:
        """How often it asks before it suspects; after so many questions a word of the silent one came."""
        asked = 0
        while not self.node.company.is_lost(self.refs[SILENT]):
            entries = self.ledger.take()
            asked += sum(verb == "send" and to == SILENT for verb, to, _ in entries)
            wait_us, alarm = [
                (to, alarm) for verb, to, alarm in entries if isinstance(alarm, RetryCheck)
            ][-1]
            self.ledger.now_us += wait_us // 2
            if asked in heard_after:
                self.node.company.heard(self.refs[SILENT])
            self.ledger.now_us += wait_us - wait_us // 2
            self.node.walks.on_retry_check(alarm)
        return asked


def questions_in_vain(heard_after: tuple[int, ...]) -> int:
    """How often one that answers nothing is asked before it is suspected."""
    walker = Vain()
    walker.node.walks.check()
    return walker.asks(heard_after)


def test_a_word_before_it_died_costs_the_questions_before_that_word() -> None:
    assert questions_in_vain(()) == LIVING.tries
    assert questions_in_vain((1,)) == LIVING.tries + 1
    assert questions_in_vain((5,)) == LIVING.tries + 5


def questions_to_one_that(misses: bool, heard_after: tuple[int, ...] = ()) -> int:
    """How often one is asked in vain of whom its own left neighbour says this."""
    walker = Vain()
    walker.node.walks.look([walker.refs[10]])
    token = walker.node.walks.walk.token
    walker.node.hear(
        10, Stat(walker.node.me, walker.refs[10], token, walker.refs[SILENT], (0, 0), (), misses)
    )
    return walker.asks(heard_after)


def test_one_whom_its_left_neighbour_misses_too_is_asked_less_often() -> None:
    assert questions_to_one_that(misses=False) == LIVING.tries
    assert questions_to_one_that(misses=True) == MISSED_TRIES


def test_any_word_of_one_who_is_missed_counts_for_more() -> None:
    assert questions_to_one_that(misses=True, heard_after=(1,)) == LIVING.tries + 1


def test_a_node_says_whether_it_misses_its_right_neighbour() -> None:
    ledger = Ledger()
    nodes = [Links(each, ledger, each, LIVING) for each in range(10, 60, 10)]
    assemble_ring(nodes)
    ledger.take()

    def said() -> list[bool]:
        nodes[1].hear(50, CheckLink(nodes[1].me, nodes[4].me, 1, nodes[3].me, (0, 0)))
        return [message.misses for _, message in ledger.sent() if isinstance(message, Stat)]

    assert said() == [False]
    nodes[1].company.suspect(nodes[2].me)
    assert said() == [True]


def test_one_that_speaks_to_others_only_is_asked_twice_as_often_and_no_more() -> None:
    assert questions_in_vain(tuple(range(1, 100))) == 2 * LIVING.tries


class Far:
    """A node all of whose left neighbours are suspected, on a walk that began far away."""

    def __init__(self, settings: LinkSettings = LIVING) -> None:
        self.ledger = Ledger()
        nodes = [Links(each, self.ledger, each, settings) for each in range(10, 90, 10)]
        assemble_ring(nodes)
        self.refs = {node.address: node.me for node in nodes}
        self.node = nodes[6]
        for ref in self.node.lefts:
            self.node.company.suspect(ref)
        self.node.walks.look([self.refs[10]])
        self.ledger.take()

    def hears(self, sender: int, left: int, right: int) -> list[Address]:
        """Whom it asks when it is told who stands before its place."""
        self.node.hear(sender, Found(self.node.me, self.refs[left], self.refs[right], (0, 0)))
        return [to for to, message in self.ledger.sent() if isinstance(message, CheckLink)]


def test_a_walk_from_afar_ends_when_a_neighbour_speaks_that_passes_the_walker_over() -> None:
    far = Far()

    assert far.hears(60, left=60, right=80) == [60]
    assert not far.node.company.is_lost(far.refs[60]), "any word ends a suspicion"


def test_a_walk_goes_on_when_others_speak_of_a_neighbour_or_it_is_no_nearer() -> None:
    assert Far().hears(50, left=60, right=80) == [], "whether it lives only it can say"
    far = Far()
    far.node.walks.look([far.refs[50]])
    far.ledger.take()

    assert far.hears(30, left=30, right=80) == []


def test_a_neighbour_that_points_here_interrupts_nothing() -> None:
    assert Far().hears(60, left=60, right=70) == []


def asked_after_a_hint(far: Far, told: int) -> list[Address]:
    """Whom it asks first when its walk is over, if it was told meanwhile where to look."""
    far.node.walks.look_from(far.refs[told])
    far.node.walks.walk = None
    far.node.walks.check()
    return [to for to, message in far.ledger.sent() if isinstance(message, CheckLink)]


def test_a_hint_that_leads_to_one_just_found_dead_is_not_followed() -> None:
    assert asked_after_a_hint(Far(), told=50) != [50], (
        "to ask it all over again would take as long once more"
    )


def test_a_hint_is_followed_when_the_suspicion_is_old() -> None:
    far = Far()
    far.ledger.now_us += LIVING.fresh_us

    assert asked_after_a_hint(far, told=50) == [50]


class Acquainted(Above):
    """Knows these besides the neighbours."""

    __slots__ = ("_known",)

    def __init__(self, *known: Ref) -> None:
        self._known = known

    def acquaintances(self) -> tuple[Ref, ...]:
        return self._known


def closed_after_s(*acquaintances: int, health: int = 0) -> float:
    """All known left neighbours of 90 died, and so did 30, which is none: when the ring is closed again by a walk that
    begins with these acquaintances, the nearest first. `health`: of 90, when it finds them silent."""
    ring = Standing(range(10, 110, 10), LIVING, Deaf(lost=0))
    links = {address: node.links for address, node in ring.nodes.items()}
    assert [ref.address for ref in links[90].lefts] == [80, 70, 60, 50]
    links[90].above = Acquainted(*(links[each].me for each in acquaintances))
    assert links[90].detector is not None
    links[90].detector.health = health

    def happen() -> None:
        for address in (30, 50, 60, 70, 80):
            ring.world.crash(address)

    ring.world.at(0, UPKEEP, happen)
    while links[40].right != links[90].me:
        ring.world.run(ring.world.now_us + S // 10)
        assert ring.world.now_us < 60 * S, "it is never closed"
    return ring.world.now_us / S


def test_a_walk_from_afar_begins_with_whoever_answers() -> None:
    awake, one_asleep = closed_after_s(20), closed_after_s(20, 30)

    assert one_asleep < awake + 5, "some questions at most, not all that a neighbour is worth"


def test_who_hears_from_afar_does_not_take_the_silence_of_the_near_for_its_own() -> None:
    well, ailing = closed_after_s(20, 10), closed_after_s(20, 10, health=2)

    assert ailing < well + 7, "three times the patience all along would be 13 s more"
