"""Mistakes put into the surface on purpose, one rule left out at a time. `MISTAKES` says what shows each."""

from dataclasses import dataclass, field
from typing import ClassVar

from ice_scenes import SCENES, Lodger
from msgspec.structs import replace

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claiming import Claiming
from implicast.overlay.ice.death_poll import DeathPoll
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.handoff_receiver import HandoffAbort, HandoffPrepared, HandoffReceiver
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.ownership_map import OwnershipMap, overlap, remainder
from implicast.overlay.ice.relocation import Relocation
from implicast.overlay.ice.surface import IceSurface
from implicast.overlay.ice.takeover import Takeover
from implicast.peer.contract import Part, handles
from implicast.peer.requests import OverlayRequests
from implicast.world.faults import Faults


def lodging(kind: type) -> type:
    """A lodger on a surface of this kind."""

    class Mistaken(Lodger, parts={"surface": kind}):
        surface_kind = kind

    return Mistaken


class LastWordAtlas(OwnershipMap):
    """Whatever was said last is believed."""

    def learn(self, claim):
        met = [each for each in self.claims.values() if overlap(each, claim)]
        for each in met:
            del self.claims[each.low]
            self.put(remainder(each, [claim]))
        self.put([claim])
        return met != [claim]


def mistaken(**parts: type) -> type:
    """A surface with some parts that make a mistake."""
    handlers = {name: kind for name, kind in parts.items() if issubclass(kind, Part)}

    class Mistaken(IceSurface, parts=handlers):
        kinds: ClassVar = {**IceSurface.kinds, **parts}

    return Mistaken


class NoEpochs(Ownership):
    def __init__(self, *given):
        super().__init__(*given)
        self.claim_map = LastWordAtlas()


class NoBackups(BackupSet):
    """Completes at once and tells no backup."""

    def replicate(self, items, then):
        then()
        return True


class NoRepeats(OverlayRequests):
    """Every question is asked once and then forgotten."""

    def __init__(self, *given):
        super().__init__(*given)
        self.ask = self._ask_once

    def _ask_once(self, topic, key, to, message, about=None):
        self.host.send(to, message)
        self.drop(topic, key)
        return True


class NoEchoRule(BackupSet):
    """Never doubts itself."""

    is_unconfirmed = False


class NoInquiry(Takeover):
    """Who is silent is dead."""

    def start_poll(self, suspect, rank, takes_over, round_=0):
        super().start_poll(suspect, rank, takes_over, round_)
        poll = self.polls.pop(suspect)
        self.declare_dead(suspect, DeathPoll(takes_over, {}, poll.message))


class NoSettling(Claiming):
    """Seized ground answers at once."""

    def commit_later(self, number, pending, before):
        super().commit_later(number, pending, before)
        if number in self.pending:
            self.commit_takeover(number, pending)


class NoThirdMessage(HandoffReceiver):
    """The taker does not wait for the giver to let go."""

    def send_prepared(self, handoff):
        super().send_prepared(handoff)
        if self.handoff is handoff:
            if not self._backup_set.backups:
                self._backup_set.set_backups((handoff.sender,), self._host.now_us)
            self.commit_handoff(handoff)


class NoTakingBack(Handoff):
    """A giver whose taker is gone waits for ever."""

    def abort_handoff(self):
        pass


class UnforgivenSuspicion(Members):
    """Once a suspect, always a suspect."""

    def heard_from(self, peer):
        suspect_since_us = self.states[peer].suspect_since_us if peer in self.states else -1
        super().heard_from(peer)
        if suspect_since_us >= 0:
            self.states[peer].suspect_since_us = suspect_since_us


class NoDuty(Relocation):
    """A leaver forgets what it holds for others."""

    def leave(self):
        self._set.copies.held.clear()
        super().leave()


class NeverMeetsAgain(Members):
    """Those that fell silent are never greeted again."""

    def due_probes(self, longest_us):
        self.lost.clear()
        return []


class NoHeirs(Takeover):
    """Nobody is asked to hold a copy; what the dead kept is gone."""

    def take_over(self, suspect, poll):
        self._copies.drop(suspect)
        poll.votes[:] = [replace(each, items=()) for each in poll.votes]
        super().take_over(suspect, poll)


class NoTidying(Relocation):
    """Spare extents stay where they are."""

    def relocate_surplus(self):
        pass


class ForgetfulHeir(BackupSet):
    """Agrees to hold copies, and drops them."""

    def choose_backups(self):
        self.copies.held.clear()
        super().choose_backups()


class HastyGiver(Handoff):
    """Lets go of an extent when it has been sent."""

    def send_part(self, handoff):
        super().send_part(handoff)
        self.commit_handoff(handoff, ())


class SilentGiver(Handoff):
    """Does not decline what it knows something better about, though that be of another part. (Tidying hides it.)"""

    @handles(HandoffPrepared)
    def on_prepared(self, sender, accepted):
        handoff = self.outgoing
        if (handoff is not None and handoff.number == accepted.number) or (
            sender,
            accepted.number,
        ) in self.receiver.ended:
            super().on_prepared(sender, accepted)
        elif not self._exchange.correct(sender, [accepted.claim]):
            self.host.send(sender, HandoffAbort(accepted.number))


NEVER_MEETS_AGAIN = mistaken(members=NeverMeetsAgain)
NO_TIDYING = mistaken(relocation=NoTidying)
LOSSY, ROUGH = Faults(0.05), Faults(0.01, 0.01, 0.02, (50.0, 400.0), 0.1)


@dataclass(frozen=True)
class IceMistake:
    """One rule of the surface left out: where it shows, and a word of the objection."""

    name: str
    rule: str
    """What is right, and where it is kept."""
    kind: type
    deeds: dict[str, int]
    """The scene's deeds; none where a test of its own makes the scene."""
    says: str
    settings: dict[str, object] = field(default_factory=lambda: {"faults": ROUGH})
    design: str = "ice"

    def __post_init__(self) -> None:
        assert self.says, "a mistake that any objection shows is shown by nothing"


MISTAKES = (
    IceMistake(
        "no epochs",
        "for each code the best claim wins, not the latest one received (overlay/ice/ownership_map.py)",
        mistaken(ownership=NoEpochs),
        SCENES["flux"],
        "both answer",
        {"faults": ROUGH, "quiet_s": 5.0},
    ),
    IceMistake(
        "no backups",
        "a change is complete when all backups have it (overlay/ice/backup_set.py)",
        mistaken(backup_set=NoBackups),
        SCENES["crash"],
        "missing",
    ),
    IceMistake(
        "no acknowledgement",
        "a request is repeated until it is answered (peer/requests.py)",
        mistaken(requests=NoRepeats),
        SCENES["flux"],
        "extents",
        {"faults": LOSSY},
    ),
    IceMistake(
        "no confirmation rule",
        "an owner that no backup acknowledges stops answering (overlay/ice/backup_set.py)",
        mistaken(backup_set=NoEchoRule),
        SCENES["freeze"],
        "both answer",
    ),
    IceMistake(
        "no death poll",
        "no peer is declared dead before the peers around it have voted (overlay/ice/takeover.py)",
        mistaken(takeover=NoInquiry),
        SCENES["cutlink"],
        "both answer",
    ),
    IceMistake(
        "no third message of a handoff",
        "a receiver answers after the sender's commit (overlay/ice/handoff.py)",
        mistaken(receiver=NoThirdMessage),
        SCENES["flux"],
        "both answer",
        {"faults": LOSSY},
    ),
    IceMistake(
        "a sender commits at once",
        "a sender holds an extent until the receiver is prepared (overlay/ice/handoff.py)",
        mistaken(handoff=HastyGiver),
        SCENES["flux"],
        "no peer holds",
    ),
    IceMistake(
        "no abort",
        "a sender whose receiver is gone takes the extent back (overlay/ice/handoff.py)",
        mistaken(handoff=NoTakingBack),
        {"join": 12, "crash": 6, "freeze": 6},
        "not committed: handing off",
    ),
    IceMistake(
        "suspicion never forgiven",
        "a suspicion ends at the first message from the suspect (overlay/ice/members.py)",
        mistaken(members=UnforgivenSuspicion),
        {"freeze": 12},
        "backups of",
        {"faults": ROUGH, "peers": 6},
    ),
    IceMistake(
        "lost peers are not probed",
        "lost peers are probed from time to time (overlay/ice/members.py)",
        NEVER_MEETS_AGAIN,
        SCENES["split"],
        "both answer",
    ),
    IceMistake(
        "backups drop their copies",
        "a backup holds its copy until the owner ends it (overlay/ice/backup_copies.py)",
        mistaken(backup_set=ForgetfulHeir),
        SCENES["crash"],
        "can restore",
    ),
    IceMistake(
        "no backup copies",
        "a takeover includes the dead owner's items (overlay/ice/takeover.py)",
        mistaken(takeover=NoHeirs),
        SCENES["crash"],
        "missing",
    ),
    IceMistake(
        "no relocation",
        "a peer with a surplus extent hands it off (overlay/ice/relocation.py)",
        NO_TIDYING,
        SCENES["crash"],
        "extents",
    ),
)
"""Searched for in the first scenes of random change."""
NO_DUTY = IceMistake(
    "a leaving peer drops backup copies",
    "a leaving peer stays while it holds a dead owner's items (overlay/ice/relocation.py)",
    mistaken(relocation=NoDuty),
    {},
    "missing",
)
NO_SETTLING = IceMistake(
    "no commit delay",
    "extents that were taken over answer after rivals have had time to meet (overlay/ice/claiming.py)",
    mistaken(claiming=NoSettling),
    {},
    "both answer",
)
SILENT_GIVER = IceMistake(
    "a sender does not abort what it owns in part",
    "an aborted handoff stays aborted (overlay/ice/handoff.py)",
    mistaken(handoff=SilentGiver, relocation=NoTidying),
    {},
    "not committed: provisional",
)
DIRECTED = (NO_DUTY, NO_SETTLING, SILENT_GIVER)
"""Each in a scene made for it (`test_ice_faults.py`)."""
