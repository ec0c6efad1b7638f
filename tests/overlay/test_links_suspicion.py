"""A live node is not bypassed for a few lost requests, and a dead one is detected no later for
that. A node that is bypassed nevertheless comes back as soon as a neighbour sends to it.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from implicast.casting.designs import designs
from implicast.overlay.links import Links, LinkSettings, Ref, RingListener
from implicast.overlay.links.messages import LinkState, LinkStateRequest, PlaceFound
from implicast.overlay.links.stabilisation import REPORTED_TRIES, LinkStateTimeout
from implicast.peer.contract import Address, Host, Peer
from implicast.peer.detector import Detector, DetectorSettings
from implicast.peer.ledger import Ledger
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import UPKEEP
from implicast.world.populations.links import assemble_ring, ring_objections
from implicast.world.world import World

S = 1_000_000
WITH_CRASHES = LinkSettings.with_crashes(check_us=7 * S, merge_us=0)
"""Without merging: an answer to a merge lookup is a message as well and would clear the silent
node.
"""
BEFORE = replace(WITH_CRASHES, tries=5, rto_cap_us=2 * S)
"""The attempts of the specification: fewer, in the same time."""
SILENT, OBSERVER = 20, 30
RINGS = ("dht", "dht-naive", "chord-pubsub", "opchord-pubsub", "condcast")


class Watched(RingListener):
    """Counts suspicions."""

    __slots__ = ("_suspected",)

    def __init__(self, suspected: Callable[[], None]) -> None:
        self._suspected = suspected

    def on_node_suspected(self, ref: Ref) -> None:
        self._suspected()


class Node(Peer, parts={"links": Links, "detector": Detector}):
    __slots__ = ("detector", "links")

    def __init__(
        self, address: Address, host: Host, settings: LinkSettings, suspected: Callable[[], None]
    ) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, int(str(address)), settings)
        self.detector = self.links.detector
        self.links.set_listener(Watched(suspected))


class Near:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Deaf:
    """Loses the first `lost` messages of the observer to its neighbour."""

    def __init__(self, lost: float) -> None:
        self.lost, self.asked = lost, 0

    def copy_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        self.asked += (sender, receiver) == (OBSERVER, SILENT)
        return (
            ()
            if (sender, receiver) == (OBSERVER, SILENT) and self.asked <= self.lost
            else (latency_us,)
        )


class Standing:
    """A converged ring, and the number of suspicions in it."""

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
    """Suspicions among 64 nodes in an hour, with one message in eight lost."""
    ring = Standing(range(64), settings, FaultStream(Faults(loss=0.125), 1))
    ring.world.run(3600 * S)
    return ring.suspicions


def test_six_lost_requests_in_a_row_bypass_no_node() -> None:
    ring = Standing(range(10, 60, 10), WITH_CRASHES, Deaf(lost=6))

    ring.world.run(60 * S)

    assert ring.suspicions == 0
    assert ring.objections() == []


def test_a_live_node_that_was_bypassed_is_back_at_once() -> None:
    ring = Standing(range(10, 60, 10), WITH_CRASHES, Deaf(lost=7))
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
    ring = Standing(range(10, 60, 10), WITH_CRASHES, Deaf(lost=float("inf")))
    ring.world.at(0, UPKEEP, lambda: ring.world.crash(SILENT))

    ring.world.run(int(1.5 * WITH_CRASHES.check_us + 1.5 * 5.75 * S) + S)

    assert ring.nodes[OBSERVER].links.left.address == 10
    assert ring.nodes[10].links.right.address == OBSERVER


def test_seven_questions_take_no_longer_than_the_five_of_the_spec() -> None:
    detector = Standing(range(10, 60, 10), WITH_CRASHES, Deaf(lost=0)).nodes[OBSERVER].detector
    assert detector is not None

    assert detector.settings.tries == 7
    assert detector.settings.detection_us() == DetectorSettings().detection_us() == 5_750_000


@pytest.mark.parametrize("name", RINGS)
def test_every_design_on_a_ring_asks_as_often_as_that(name: str) -> None:
    asked = {parameter.name: parameter.default for parameter in designs()[name].parameters}["tries"]

    assert asked == WITH_CRASHES.tries


@pytest.mark.parametrize("name", RINGS)
def test_who_is_quick_asks_often_too(name: str) -> None:
    quick = designs()[name].quick
    check_us = int(quick["check_ms"] * 1000 if "check_ms" in quick else quick["check_s"] * S)
    settings = LinkSettings.with_crashes(check_us, quick["tries"])
    waits_us = [
        min(settings.rto_us << tried, settings.rto_cap_us) for tried in range(settings.tries)
    ]

    assert sum(waits_us) <= 2.75 * S, "the quick are quick"
    assert (1 - 0.95**2) ** settings.tries < 1e-5, "one message in twenty lost"


def test_in_the_same_time_seven_questions_suspect_the_living_far_more_rarely_than_five() -> None:
    five, seven = false_suspicions(BEFORE), false_suspicions(WITH_CRASHES)

    assert five >= 5, "the trial is hard enough to tell"
    assert seven <= five / 5, (five, seven)


def fallen_together(act: Callable[[dict[int, Links]], None]) -> Standing:
    """Two adjacent nodes, 20 and 30, crash when something happens; runs for the time that detects
    one silent node.
    """
    ring = Standing(range(10, 70, 10), WITH_CRASHES, Deaf(lost=0))

    def happen() -> None:
        for address in (20, 30):
            ring.world.crash(address)
        act({address: node.links for address, node in ring.nodes.items()})

    ring.world.at(0, UPKEEP, happen)
    ring.world.run(int(1.5 * 5.75 * S) + S // 2)
    return ring


def test_a_hint_at_one_that_died_since_costs_no_time_of_its_own() -> None:
    ring = fallen_together(lambda nodes: nodes[40].stabilisation.search_from(nodes[20].me))

    assert ring.nodes[40].links.left.address == 10, "those on its left were asked meanwhile"
    assert ring.nodes[10].links.right.address == 40


class Vain:
    """A node whose left neighbour answers nothing."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        nodes = [Links(each, self.ledger, each, WITH_CRASHES) for each in range(10, 60, 10)]
        assemble_ring(nodes)
        self.refs = {node.address: node.me for node in nodes}
        self.node = nodes[2]
        self.ledger.take()

    def asks(self, heard_after: tuple[int, ...]) -> int:
        """Number of requests before the node is suspected; a message of the silent node arrives
        after `heard_after` of them.
        """
        asked = 0
        while not self.node.liveness.is_lost(self.refs[SILENT]):
            entries = self.ledger.take()
            asked += sum(verb == "send" and to == SILENT for verb, to, _ in entries)
            wait_us, alarm = [
                (to, alarm) for verb, to, alarm in entries if isinstance(alarm, LinkStateTimeout)
            ][-1]
            self.ledger.now_us += wait_us // 2
            if asked in heard_after:
                self.node.liveness.on_message_from(self.refs[SILENT])
            self.ledger.now_us += wait_us - wait_us // 2
            self.node.stabilisation.on_link_state_timeout(alarm)
        return asked


def questions_in_vain(heard_after: tuple[int, ...]) -> int:
    """Number of requests to a silent node before it is suspected."""
    walker = Vain()
    walker.node.stabilisation.check_left()
    return walker.asks(heard_after)


def test_attempts_before_the_last_message_of_a_dead_node_do_not_count() -> None:
    assert questions_in_vain(()) == WITH_CRASHES.tries
    assert questions_in_vain((1,)) == WITH_CRASHES.tries + 1
    assert questions_in_vain((5,)) == WITH_CRASHES.tries + 5


def questions_to_one_that(misses: bool, heard_after: tuple[int, ...] = ()) -> int:
    """Number of unanswered requests to a node of which its own left neighbour says this."""
    walker = Vain()
    walker.node.stabilisation.start_search([walker.refs[10]])
    token = walker.node.stabilisation.search.token
    walker.node.handle_message(
        10,
        LinkState(walker.node.me, walker.refs[10], token, walker.refs[SILENT], (0, 0), (), misses),
    )
    return walker.asks(heard_after)


def test_one_whom_its_left_neighbour_misses_too_is_asked_less_often() -> None:
    assert questions_to_one_that(misses=False) == WITH_CRASHES.tries
    assert questions_to_one_that(misses=True) == REPORTED_TRIES


def test_any_message_of_a_reported_node_counts_for_more() -> None:
    assert questions_to_one_that(misses=True, heard_after=(1,)) == WITH_CRASHES.tries + 1


def test_a_node_says_whether_it_misses_its_right_neighbour() -> None:
    ledger = Ledger()
    nodes = [Links(each, ledger, each, WITH_CRASHES) for each in range(10, 60, 10)]
    assemble_ring(nodes)
    ledger.take()

    def said() -> list[bool]:
        nodes[1].handle_message(
            50, LinkStateRequest(nodes[1].me, nodes[4].me, 1, nodes[3].me, (0, 0))
        )
        return [
            message.suspects_right for _, message in ledger.sent() if isinstance(message, LinkState)
        ]

    assert said() == [False]
    nodes[1].liveness.suspect(nodes[2].me)
    assert said() == [True]


def test_one_that_speaks_to_others_only_is_asked_twice_as_often_and_no_more() -> None:
    assert questions_in_vain(tuple(range(1, 100))) == 2 * WITH_CRASHES.tries


class Far:
    """A node whose left neighbours are all suspected, with a search that started far away."""

    def __init__(self, settings: LinkSettings = WITH_CRASHES) -> None:
        self.ledger = Ledger()
        nodes = [Links(each, self.ledger, each, settings) for each in range(10, 90, 10)]
        assemble_ring(nodes)
        self.refs = {node.address: node.me for node in nodes}
        self.node = nodes[6]
        for ref in self.node.lefts:
            self.node.liveness.suspect(ref)
        self.node.stabilisation.start_search([self.refs[10]])
        self.ledger.take()

    def hears(self, sender: int, left: int, right: int) -> list[Address]:
        """The nodes it queries when it is told which node precedes its place."""
        self.node.handle_message(
            sender, PlaceFound(self.node.me, self.refs[left], self.refs[right], (0, 0))
        )
        return [to for to, message in self.ledger.sent() if isinstance(message, LinkStateRequest)]


def test_a_search_from_far_away_ends_when_a_neighbour_that_bypasses_the_node_speaks() -> None:
    far = Far()

    assert far.hears(60, left=60, right=80) == [60]
    assert not far.node.liveness.is_lost(far.refs[60]), "any word ends a suspicion"


def test_a_search_goes_on_when_the_hint_is_from_another_node_or_no_nearer() -> None:
    assert Far().hears(50, left=60, right=80) == [], "whether it lives only it can say"
    far = Far()
    far.node.stabilisation.start_search([far.refs[50]])
    far.ledger.take()

    assert far.hears(30, left=30, right=80) == []


def test_a_neighbour_that_points_here_interrupts_nothing() -> None:
    assert Far().hears(60, left=60, right=70) == []


def asked_after_a_hint(far: Far, told: int) -> list[Address]:
    """The node it queries first after its search, if it received a hint meanwhile."""
    far.node.stabilisation.search_from(far.refs[told])
    far.node.stabilisation.search = None
    far.node.stabilisation.check_left()
    return [to for to, message in far.ledger.sent() if isinstance(message, LinkStateRequest)]


def test_a_hint_that_leads_to_one_just_found_dead_is_not_followed() -> None:
    assert asked_after_a_hint(Far(), told=50) != [50], (
        "to ask it all over again would take as long once more"
    )


def test_a_hint_is_followed_when_the_suspicion_is_old() -> None:
    far = Far()
    far.ledger.now_us += WITH_CRASHES.fresh_us

    assert asked_after_a_hint(far, told=50) == [50]


class Acquainted(RingListener):
    """Knows these nodes besides the neighbours."""

    __slots__ = ("_known",)

    def __init__(self, *known: Ref) -> None:
        self._known = known

    def known_nodes(self) -> tuple[Ref, ...]:
        return self._known


def closed_after_s(*acquaintances: int, health: int = 0) -> float:
    """All known left neighbours of 90 have crashed, and so has 30, which is not one: time until the
    ring is closed by a search that starts with these known nodes, the nearest first. `health`: of
    90 when it finds them silent.
    """
    ring = Standing(range(10, 110, 10), WITH_CRASHES, Deaf(lost=0))
    links = {address: node.links for address, node in ring.nodes.items()}
    assert [ref.address for ref in links[90].lefts] == [80, 70, 60, 50]
    links[90].set_listener(Acquainted(*(links[each].me for each in acquaintances)))
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


def test_a_search_from_far_away_starts_with_a_node_that_answers() -> None:
    awake, one_asleep = closed_after_s(20), closed_after_s(20, 30)

    assert one_asleep < awake + 5, "some questions at most, not all that a neighbour is worth"


def test_who_hears_from_afar_does_not_take_the_silence_of_the_near_for_its_own() -> None:
    well, ailing = closed_after_s(20, 10), closed_after_s(20, 10, health=2)

    assert ailing < well + 7, "three times the patience all along would be 13 s more"
