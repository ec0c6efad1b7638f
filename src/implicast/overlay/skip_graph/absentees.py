"""Who is there, who was lost, and whom others accuse. Ring upkeep, parts D.2 and E.

An address that stays silent towards this peer is lost: it is kept aside with its certificates, called again and again,
and comes back with its first word. Nobody is lost on the word of others. An address lives and dies as a whole, so it is
lost and found as a whole, however many places it has.

Who found somebody silent says so to its contacts, who look for themselves sooner than they would have. Only own
evidence is passed on, and only while few have passed it on: a liar's accusation costs one probe each. Who speaks again
is told that it was lost: it may have slept, and looks at everything anew.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from implicast.overlay.skip_graph.messages import Accuse, Accusing
from implicast.overlay.skip_graph.place import Place, strangers
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.liveness import Detector, DetectorSettings, Ping
from implicast.peer.memory import Recent

QUIET_US = 2_000_000
"""Who was heard so lately is not looked for, whoever misses it."""
CALL_US = 5_000_000
CALL_CAP_US = 20_000_000
"""The lost are called after the first, sooner where one watches more often, then at intervals that double up to the
second; out of turn, the first apart, when others name them or one of them speaks: a call or its answer may get lost."""
CALLS_GROW = 4
"""Later the pauses are the silence divided by this."""
LOST_US = 180_000_000
"""For so long the lost are called so often, and come back to all their places with their first word."""
REMEMBERED_US = 3_600_000_000
"""For so long nobody lists them on the word of others: some who heard them alive may list and name them for long, until
they ask them for another reason. They are called all the while, at pauses that grow with their silence: of two sides of
a long partition one word is enough."""
PASSED_US = 60_000_000
"""Who asked and was heard within this time is taken for present until a probe says otherwise."""
LIFE_US = 15_000_000
"""Who gave a sign of life within this time need not be asked for one."""
LOST_MAX = 1_024
"""Addresses that are kept aside; the first lost are forgotten first."""
LOST_PLACES_MAX = 256
"""Places of one lost address that are kept aside."""
TELL_US = 500_000
"""Accusations of so long go together in one message."""
ACCUSERS_ENOUGH = 3
"""Whom so many accuse needs no further accuser."""
ACCUSED_MAX = 1_024
"""Addresses whose accusers are counted; the first accused go first."""
ACCUSED_US = 30_000_000
"""For so long an accuser counts: else those who once accused somebody falsely would silence all who find it dead."""
REFOUND_US = 30_000_000
"""Who says that it had lost us, so soon after we found it again, tells no news: we had lost it too, and asked it."""
FOUND_MAX = 1_024
"""Addresses found again that are remembered; the first found are forgotten first."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How eagerly one watches: what repair costs in time, and what it saves in messages."""

    watch_us: int = 7_000_000
    turn_us: int = 12_000_000
    look_us: int = 5_000_000
    """How often lists that changed are compared: by then most neighbours have found out for themselves who is gone."""
    asks: int = 6
    """Questions and farewells, a second apart, before the other is taken for silent."""
    detector: DetectorSettings = field(default_factory=DetectorSettings)


@dataclass(slots=True)
class Lost:
    """Somebody silent: its certificates, since when, when it is called next, and when it was called last."""

    since_us: int
    call_us: int
    wait_us: int
    called_us: int = 0
    nodes: dict[bytes, Certificate] = field(default_factory=dict)

    def call(self, now_us: int, wait_us: int) -> None:
        """It is called now, and again after a while."""
        self.called_us, self.wait_us, self.call_us = now_us, wait_us, now_us + wait_us


class Absentees(Part, parts={"detector": Detector}):
    """Those lost to one peer, and the detector that finds them out. `lose(address)` is called when one falls silent,
    `changed()` when our lists have changed, `catch_up()` when somebody had lost us."""

    __slots__ = (
        "_catch_up",
        "_found_us",
        "_places",
        "_tell",
        "_upkeep",
        "accused",
        "changed",
        "detector",
        "lost",
    )

    def __init__(
        self,
        places: Places,
        upkeep: Upkeep,
        lose: Callable[[Address], None],
        changed: Callable[[], None],
        catch_up: Callable[[], None],
    ) -> None:
        super().__init__(places.address, places.host)
        self._places, self._upkeep, self.changed, self._catch_up = places, upkeep, changed, catch_up
        self.detector: Detector[Address] = Detector(
            places.address, places.host, upkeep.detector, lose
        )
        self.lost: Recent[Address, Lost] = Recent(LOST_MAX)
        self.accused: Recent[Address, tuple[int, tuple[Address, ...]]] = Recent(
            ACCUSED_MAX
        )  # since when, by whom
        self._tell: list[Address] = []
        self._found_us: Recent[Address, int] = Recent(
            FOUND_MAX
        )  # who was lost and spoke again, and when

    # --- who is there

    def watch(self, address: Address) -> None:
        """Something that it should have answered was not: look for it at once."""
        if address not in self.lost:
            self.detector.check(address, QUIET_US)

    def look_for(self, address: Address, message: Message) -> None:
        """It was sent this and has not answered."""
        if self.detector.is_probing(address):
            self.host.send(address, message)
        elif address not in self.lost:
            self.detector.probe(address, message)

    def is_there(self, address: Address, within_us: int) -> bool:
        """Whether it was heard lately."""
        silent_us = self.detector.silent_for_us(address)
        return address not in self.lost and silent_us is not None and silent_us < within_us

    def is_about(self, node: Certificate) -> bool:
        """Whether the holder of a place may be taken for present."""
        address = node.address
        is_there = address not in self.detector.gone and self.is_there(address, PASSED_US)
        return is_there and self._places.belief.sound(node)

    def was_heard_since(self, address: Address, time_us: int) -> bool:
        """Whether somebody has given a sign of life since then."""
        silent_us = self.detector.silent_for_us(address)
        return silent_us is not None and silent_us <= self.host.now_us - time_us

    # --- who may be listed on the word of others

    def may_list(self, node: Certificate) -> bool:
        """Who is silent towards us is not listed on the word of others."""
        lost, belief = self.lost.get(node.address), self._places.belief
        if lost is None:
            return belief.sound(node)
        if len(lost.nodes) < LOST_PLACES_MAX and belief.sound(node):
            lost.nodes[node.key] = node  # for when it speaks again
            self._call_out_of_turn(node.address, lost)
        return False

    def believed(self, place: Place, named: Sequence[Certificate]) -> Sequence[Certificate]:
        """Of those whom a witness named, who may be listed. Most were met before: they are looked at all at once."""
        known, lost = place.known, self.lost
        fresh = strangers(known, named)
        doubtful = self._places.belief.doubtful(fresh)
        if lost:
            doubtful += [node for node in fresh if node.address in lost]
        refused = {node.key for node in doubtful if not self.may_list(node)}
        chosen = named if place.is_searching else fresh
        return [node for node in chosen if node.key not in refused] if refused else chosen

    # --- those lost

    def put_aside(self, address: Address, places: Mapping[bytes, Certificate]) -> None:
        """It is silent towards us, and had these places."""
        now_us = self.host.now_us
        wait_us = min(CALL_US, self._upkeep.watch_us)
        lost = self.lost.get(address) or Lost(now_us, now_us + wait_us, wait_us)
        self.lost[address] = lost
        lost.nodes.update(places)

    def take_back(self, address: Address) -> Lost:
        """It spoke, and hears that it was lost. Where one was only cut off, others may have been: of those on the other
        side of a partition all are called as soon as one has spoken."""
        self._found_us.put(address, self.host.now_us)
        self.host.send(address, Accuse((address,)))
        found = self.lost.pop(address)
        for other, lost in list(self.lost.items()):
            self._call_out_of_turn(other, lost)
        return found

    def drop(self, place: Place, gone: Collection[bytes]) -> None:
        """Take entries out of a place. Who asked lately may belong where somebody has gone: it knew before us, and will
        not ask again."""
        place.drop(gone)
        self.changed()
        for node in list(place.passers.values()):
            if node.key not in gone and self.is_about(node) and place.enter(node):
                place.hearsay[node.key] = self.host.now_us  # as long as it does not speak again
                self.watch(node.address)

    def call_due(self) -> None:
        """Call those of the lost whose time has come, and forget those lost long ago."""
        now_us = self.host.now_us
        for address, lost in list(self.lost.items()):
            if lost.since_us + REMEMBERED_US < now_us:
                del self.lost[address]
            elif lost.call_us <= now_us:
                if not self.may_return(lost):
                    lost.nodes.clear()
                self._call(address, lost)

    def lost_within(self, within_us: int) -> list[Certificate]:
        """Places of those who fell silent so lately that it may have been for us alone, or for a moment."""
        since_us = self.host.now_us - within_us
        return [
            node
            for lost in self.lost.values()
            if lost.since_us >= since_us
            for node in lost.nodes.values()
        ]

    def _call_out_of_turn(self, address: Address, lost: Lost) -> None:
        if lost.called_us + CALL_US <= self.host.now_us:
            self._call(address, lost)

    def _call(self, address: Address, lost: Lost) -> None:
        now_us = self.host.now_us
        often = self.may_return(lost)
        lost.call(
            now_us,
            min(2 * lost.wait_us, CALL_CAP_US) if often else (now_us - lost.since_us) // CALLS_GROW,
        )
        self.host.send(address, Ping(0))

    def may_return(self, lost: Lost) -> bool:
        """Whether it was lost for so short a time that it may come back to all its places."""
        return lost.since_us + LOST_US >= self.host.now_us

    # --- accusing

    def pass_on(self, address: Address) -> None:
        """Somebody is gone from our lists: tell others, unless enough have."""
        if not self.is_told_of(address):
            if not self._tell:
                self.host.after(int(TELL_US * (1 + self.host.rng.random())), Accusing())
            self._tell.append(address)

    @handles(Accusing)
    def on_accusing(self, alarm: Accusing) -> None:
        lost, gone = self.lost, self.detector.gone
        told = tuple(
            [
                each
                for each in self._tell
                if not self.is_told_of(each) and (each in lost or each in gone)
            ]
        )
        self._tell = []
        if told:
            for address in self._places.contact_addresses():
                if address not in lost and address not in told:
                    self.host.send(address, Accuse(told))

    @handles(Accuse)
    def on_accuse(self, sender: Address, accuse: Accuse) -> None:
        """Look for oneself. The accuser is not believed."""
        now_us = self.host.now_us
        if (
            self.address in accuse.addresses
            and self._found_us.get(sender, -REFOUND_US) < now_us - REFOUND_US
        ):
            self._catch_up()
        for address in accuse.addresses:
            if address == self.address:
                continue
            is_sought = address in self._tell or self.detector.is_probing(
                address
            )  # most are already
            if is_sought or self._lists(address):
                since_us, accusers = self.accused.pop(address, (now_us, ()))
                if since_us + ACCUSED_US < now_us:
                    since_us, accusers = now_us, ()
                if sender not in accusers and len(accusers) < ACCUSERS_ENOUGH:
                    accusers = (*accusers, sender)
                self.accused[address] = (since_us, accusers)
                self.watch(address)

    def is_told_of(self, address: Address) -> bool:
        """Whether enough have accused it lately."""
        since_us, accusers = self.accused.get(address, (0, ()))
        return len(accusers) >= ACCUSERS_ENOUGH and since_us + ACCUSED_US >= self.host.now_us

    def _lists(self, address: Address) -> bool:
        if address in self.lost or address in self.detector.gone:
            return False
        return any(address in place.addresses for place in self._places.held.values())
