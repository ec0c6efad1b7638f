"""Mistakes put into the living surface on purpose, one rule left out at a time. `MISTAKES` says what shows each."""

from ice_life import SCENES, Lodger

from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.alive.inquiring import Inquiry
from implicast.overlay.ice.atlas import Atlas, overlap, remainder
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


LOSSY, ROUGH = Faults(0.05), Faults(0.01, 0.01, 0.02, (50.0, 400.0), 0.1)
Settings = dict[str, object]
MISTAKES: dict[str, tuple[type, dict[str, int], str, Settings]] = {
    "no epochs": (NoEpochs, SCENES["flux"], "", {"faults": ROUGH, "quiet_s": 5.0}),
    "no backups": (NoBackups, SCENES["crash"], "missing", {"faults": ROUGH}),
    "no acknowledgement": (NoRepeats, SCENES["flux"], "", {"faults": LOSSY}),
    "no echo rule": (NoEchoRule, SCENES["freeze"], "both answer", {"faults": ROUGH}),
    "no inquiry": (NoInquiry, SCENES["cutlink"], "both answer", {"faults": ROUGH}),
    "no third message of a give": (NoThirdMessage, SCENES["flux"], "both answer", {"faults": LOSSY}),
    "no taking back": (NoTakingBack, SCENES["mix"], "giving", {"faults": ROUGH}),
    "suspicion never forgiven": (UnforgivenSuspicion, {"freeze": 12}, "heirs", {"faults": ROUGH, "peers": 6}),
    "never meeting again": (NeverMeetsAgain, SCENES["split"], "both own", {"faults": ROUGH}),
    "no estates": (NoHeirs, SCENES["crash"], "missing", {"faults": ROUGH}),
    "no tidying": (NoTidying, SCENES["crash"], "pieces", {"faults": ROUGH}),
}
"""What is left out, where it shows, a word of the objection, and the settings of the scene."""
