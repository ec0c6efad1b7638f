"""Mistakes put into the living surface on purpose, one rule left out at a time. `MISTAKES` says what shows each."""

from dataclasses import dataclass, field

from ice_life import SCENES, Lodger

from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.alive.inquiring import Inquiry
from implicast.overlay.ice.alive.messages import Accepted
from implicast.overlay.ice.atlas import Atlas, overlap, remainder
from implicast.overlay.ice.messages import Declined
from implicast.peer.contract import handles
from implicast.world.faults import Faults


def lodging(kind: type) -> type:
    """A lodger on a surface of this kind."""

    class Mistaken(Lodger, parts={"surface": kind}):
        surface_kind = kind

    return Mistaken


class LastWordAtlas(Atlas):
    """Whatever was said last is believed."""

    def learn(self, title):
        met = [each for each in self.titles.values() if overlap(each, title)]
        for each in met:
            del self.titles[each.low]
            self.put(remainder(each, [title]))
        self.put([title])
        return met != [title]


class NoEpochs(LivingIce):
    def __init__(self, *given):
        super().__init__(*given)
        self.atlas = LastWordAtlas()

    def settle_into(self, title, others, heirs):
        super().settle_into(title, others, heirs)
        self.atlas = LastWordAtlas(self.atlas.titles.values())


class NoBackups(LivingIce):
    """Completes at once and tells no heir."""

    def batch(self, items, then):
        then()
        return True


class NoRepeats(LivingIce):
    """Every question is asked once and then forgotten."""

    def ask(self, key, to, message, tries, lost):
        self.host.send(to, message)
        self.asks.pop(key, None)


class NoEchoRule(LivingIce):
    """Never doubts itself."""

    is_doubtful = False


class NoInquiry(LivingIce):
    """Who is silent is dead."""

    def inquire(self, suspect, rank, seizes, round_=0):
        super().inquire(suspect, rank, seizes, round_)
        inquiry = self.inquiries.pop(suspect)
        self.declare_dead(suspect, Inquiry(rank, seizes, {}, inquiry.message))


class NoSettling(LivingIce):
    """Seized ground answers at once."""

    def _settle(self, number, tract, before, whole):
        super()._settle(number, tract, before, whole)
        seizure = self.seizures.get(number)
        if seizure is not None:
            seizure.rested = seizure.backed_up = True
            self._firm_up(number, seizure)


class NoThirdMessage(LivingIce):
    """The taker does not wait for the giver to let go."""

    def _accept(self, receipt):
        super()._accept(receipt)
        if self.receipt is receipt:
            if not self.heirs:
                self.heirs, self.echoed_us = (receipt.giver,), self.host.now_us
            self.granted()


class NoTakingBack(LivingIce):
    """A giver whose taker is gone waits for ever."""

    def take_back(self):
        pass


class UnforgivenSuspicion(LivingIce):
    """Once a suspect, always a suspect."""

    def heard(self, peer):
        suspect_us = self.news[peer].suspect_us if peer in self.news else -1
        super().heard(peer)
        if suspect_us >= 0:
            self.news[peer].suspect_us = suspect_us


class NoDuty(LivingIce):
    """A leaver forgets what it holds for others."""

    def leave(self):
        self.estates.clear()
        super().leave()


class NeverMeetsAgain(LivingIce):
    """Those that fell silent are never greeted again."""

    def greet_missed(self):
        self.missed.clear()


class NoHeirs(LivingIce):
    """Nobody is asked to hold a copy; what the dead kept is gone."""

    def seize(self, suspect, inquiry):
        self.estates.pop(suspect, None)
        inquiry.items.clear()
        super().seize(suspect, inquiry)


class NoTidying(LivingIce):
    """Spare pieces stay where they are."""

    def tidy(self):
        pass


class ForgetfulHeir(LivingIce):
    """Agrees to hold copies, and drops them."""

    def choose_heirs(self):
        self.estates.clear()
        super().choose_heirs()


class HastyGiver(LivingIce):
    """Lets go of a piece when it has been sent."""

    def _hand_over(self):
        gift = self.gift
        super()._hand_over()
        self._part_with(gift, ())


class SilentGiver(NoTidying):
    """Does not decline what it knows something better about, though that be of another part. (Tidying hides it.)"""

    @handles(Accepted)
    def on_accepted(self, sender, accepted):
        gift = self.gift
        if (gift is not None and gift.number == accepted.number) or (sender, accepted.number) in self.done:
            super().on_accepted(sender, accepted)
        elif not self.correct(sender, [accepted.title]):
            self.host.send(sender, Declined(accepted.number))


LOSSY, ROUGH = Faults(0.05), Faults(0.01, 0.01, 0.02, (50.0, 400.0), 0.1)


@dataclass(frozen=True)
class IceMistake:
    """One rule of the living surface left out: where it shows, and a word of the objection."""

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
        "no epochs", "for each code the best title wins, not the last word (overlay/ice/atlas.py)",
        NoEpochs, SCENES["flux"], "both answer", {"faults": ROUGH, "quiet_s": 5.0},
    ),
    IceMistake(
        "no backups", "nothing is complete before the heirs have it (overlay/ice/alive/heirs.py)",
        NoBackups, SCENES["crash"], "missing",
    ),
    IceMistake(
        "no acknowledgement", "what must arrive is repeated until it is answered (overlay/ice/alive/asking.py)",
        NoRepeats, SCENES["flux"], "pieces", {"faults": LOSSY},
    ),
    IceMistake(
        "no echo rule", "an owner that no heir echoes stops answering (overlay/ice/alive/heirs.py)",
        NoEchoRule, SCENES["freeze"], "both answer",
    ),
    IceMistake(
        "no inquiry", "nobody is declared dead before all around have been asked (overlay/ice/alive/inquiring.py)",
        NoInquiry, SCENES["cutlink"], "both answer",
    ),
    IceMistake(
        "no third message of a give", "a taker answers when the giver has let go (overlay/ice/alive/taking.py)",
        NoThirdMessage, SCENES["flux"], "both answer", {"faults": LOSSY},
    ),
    IceMistake(
        "a giver lets go at once", "a giver holds a piece until it has been accepted (overlay/ice/alive/giving.py)",
        HastyGiver, SCENES["flux"], "nobody holds",
    ),
    IceMistake(
        "no taking back", "a giver whose taker is gone takes the piece back (overlay/ice/alive/giving.py)",
        NoTakingBack, SCENES["mix"], "not firm: giving",
    ),
    IceMistake(
        "suspicion never forgiven", "whoever is heard again is no suspect (overlay/ice/alive/asking.py)",
        UnforgivenSuspicion, {"freeze": 12}, "heirs of", {"faults": ROUGH, "peers": 6},
    ),
    IceMistake(
        "never meeting again", "those that fell silent are greeted now and then (overlay/ice/alive/minding.py)",
        NeverMeetsAgain, SCENES["split"], "both answer",
    ),
    IceMistake(
        "heirs drop their copies", "an heir holds its copy until told otherwise (overlay/ice/alive/inheriting.py)",
        ForgetfulHeir, SCENES["crash"], "can inherit",
    ),
    IceMistake(
        "no estates", "who takes the place of the dead takes over what they kept (overlay/ice/alive/seizing.py)",
        NoHeirs, SCENES["crash"], "missing",
    ),
    IceMistake(
        "no tidying", "whoever has a spare piece gives it away (overlay/ice/alive/leaving.py)",
        NoTidying, SCENES["crash"], "pieces",
    ),
)  # fmt: skip
"""Searched for in the first scenes of random change."""
NO_DUTY = IceMistake(
    "a leaver forgets the dead",
    "a leaver stays while it holds what the dead kept (overlay/ice/alive/leaving.py)",
    NoDuty,
    {},
    "missing",
)
NO_SETTLING = IceMistake(
    "no time to settle", "what is seized answers when rivals have had time to meet (overlay/ice/alive/seizing.py)",
    NoSettling, {}, "both answer",
)  # fmt: skip
SILENT_GIVER = IceMistake(
    "a giver declines nothing that it has a part of", "what was taken back is declined (overlay/ice/alive/giving.py)",
    SilentGiver, {}, "not firm: provisional",
)  # fmt: skip
DIRECTED = (NO_DUTY, NO_SETTLING, SILENT_GIVER)
"""Each in a scene made for it (`test_ice_life.py`)."""
