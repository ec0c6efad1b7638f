"""Mistakes put into the surface on purpose, one rule left out at a time. `MISTAKES` says what shows each."""

from dataclasses import dataclass, field

from ice_life import SCENES, Lodger
from msgspec.structs import replace

from implicast.overlay.ice.atlas import Atlas, overlap, remainder
from implicast.overlay.ice.circle import Circle
from implicast.overlay.ice.gives import Giver, Taker
from implicast.overlay.ice.inquest import Inquest, Inquiry
from implicast.overlay.ice.messages import Accepted, Declined
from implicast.overlay.ice.parting import Parting
from implicast.overlay.ice.plot import Plot
from implicast.overlay.ice.share import Correspondence
from implicast.overlay.ice.succession import Succession
from implicast.overlay.ice.surface import Surface
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


def mistaken(**parts: type) -> type:
    """A surface with some parts that make a mistake."""

    class Mistaken(Surface, parts=parts): ...

    return Mistaken


class NoEpochs(Plot):
    def __init__(self, surface):
        super().__init__(surface)
        self.atlas = LastWordAtlas()

    def settle_on(self, atlas):
        super().settle_on(LastWordAtlas(atlas.titles.values()))


class NoBackups(Succession):
    """Completes at once and tells no heir."""

    def batch(self, items, then):
        then()
        return True


class NoRepeats(Correspondence):
    """Every question is asked once and then forgotten."""

    def __init__(self, *given):
        super().__init__(*given)
        self.ask = self._ask_once

    def _ask_once(self, topic, key, to, message, about=None):
        self.host.send(to, message)
        self.drop(topic, key)
        return True


class NoEchoRule(Succession):
    """Never doubts itself."""

    is_doubtful = False


class NoInquiry(Inquest):
    """Who is silent is dead."""

    def inquire(self, suspect, rank, seizes, round_=0):
        super().inquire(suspect, rank, seizes, round_)
        inquiry = self.inquiries.pop(suspect)
        self.declare_dead(suspect, Inquiry(seizes, {}, inquiry.message))


class NoSettling(Inquest):
    """Seized ground answers at once."""

    def settle(self, number, seizure, before):
        super().settle(number, seizure, before)
        if number in self.open:
            self.firm_up(number, seizure)


class NoThirdMessage(Taker):
    """The taker does not wait for the giver to let go."""

    def accept(self, receipt):
        super().accept(receipt)
        if self.receipt is receipt:
            if not self.surface.heirs:
                self.surface.succession.begin_with((receipt.giver,), self.host.now_us)
            self.granted(receipt)


class NoTakingBack(Giver):
    """A giver whose taker is gone waits for ever."""

    def take_back(self):
        pass


class UnforgivenSuspicion(Circle):
    """Once a suspect, always a suspect."""

    def heard(self, peer):
        suspect_us = self.news[peer].suspect_us if peer in self.news else -1
        super().heard(peer)
        if suspect_us >= 0:
            self.news[peer].suspect_us = suspect_us


class NoDuty(Parting):
    """A leaver forgets what it holds for others."""

    def leave(self):
        self.surface.estates.held.clear()
        super().leave()


class NeverMeetsAgain(Circle):
    """Those that fell silent are never greeted again."""

    def greet_missed(self):
        self.missed.clear()


class NoHeirs(Inquest):
    """Nobody is asked to hold a copy; what the dead kept is gone."""

    def seize(self, suspect, inquiry):
        self.surface.estates.held.pop(suspect, None)
        inquiry.witnesses[:] = [replace(each, items=()) for each in inquiry.witnesses]
        super().seize(suspect, inquiry)


class NoTidying(Parting):
    """Spare pieces stay where they are."""

    def tidy(self):
        pass


class ForgetfulHeir(Succession):
    """Agrees to hold copies, and drops them."""

    def choose_heirs(self):
        self.surface.estates.held.clear()
        super().choose_heirs()


class HastyGiver(Giver):
    """Lets go of a piece when it has been sent."""

    def hand_over(self, gift):
        super().hand_over(gift)
        self.part_with(gift, ())


class SilentGiver(Giver):
    """Does not decline what it knows something better about, though that be of another part. (Tidying hides it.)"""

    @handles(Accepted)
    def on_accepted(self, sender, accepted):
        gift = self.gift
        if (gift is not None and gift.number == accepted.number) or (
            sender,
            accepted.number,
        ) in self.done:
            super().on_accepted(sender, accepted)
        elif not self.surface.greetings.correct(sender, [accepted.title]):
            self.host.send(sender, Declined(accepted.number))


NEVER_MEETS_AGAIN = mistaken(circle=NeverMeetsAgain)
NO_TIDYING = mistaken(parting=NoTidying)
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
        "for each code the best title wins, not the last word (overlay/ice/atlas.py)",
        mistaken(plot=NoEpochs),
        SCENES["flux"],
        "both answer",
        {"faults": ROUGH, "quiet_s": 5.0},
    ),
    IceMistake(
        "no backups",
        "nothing is complete before the heirs have it (overlay/ice/succession.py)",
        mistaken(succession=NoBackups),
        SCENES["crash"],
        "missing",
    ),
    IceMistake(
        "no acknowledgement",
        "what must arrive is repeated until it is answered (overlay/ice/share.py)",
        mistaken(asker=NoRepeats),
        SCENES["flux"],
        "pieces",
        {"faults": LOSSY},
    ),
    IceMistake(
        "no echo rule",
        "an owner that no heir echoes stops answering (overlay/ice/succession.py)",
        mistaken(succession=NoEchoRule),
        SCENES["freeze"],
        "both answer",
    ),
    IceMistake(
        "no inquiry",
        "nobody is declared dead before all around have been asked (overlay/ice/inquest.py)",
        mistaken(inquest=NoInquiry),
        SCENES["cutlink"],
        "both answer",
    ),
    IceMistake(
        "no third message of a give",
        "a taker answers when the giver has let go (overlay/ice/gives.py)",
        mistaken(taker=NoThirdMessage),
        SCENES["flux"],
        "both answer",
        {"faults": LOSSY},
    ),
    IceMistake(
        "a giver lets go at once",
        "a giver holds a piece until it has been accepted (overlay/ice/gives.py)",
        mistaken(giver=HastyGiver),
        SCENES["flux"],
        "nobody holds",
    ),
    IceMistake(
        "no taking back",
        "a giver whose taker is gone takes the piece back (overlay/ice/gives.py)",
        mistaken(giver=NoTakingBack),
        {"join": 12, "crash": 6, "freeze": 6},
        "not firm: giving",
    ),
    IceMistake(
        "suspicion never forgiven",
        "whoever is heard again is no suspect (overlay/ice/circle.py)",
        mistaken(circle=UnforgivenSuspicion),
        {"freeze": 12},
        "heirs of",
        {"faults": ROUGH, "peers": 6},
    ),
    IceMistake(
        "never meeting again",
        "those that fell silent are greeted now and then (overlay/ice/circle.py)",
        NEVER_MEETS_AGAIN,
        SCENES["split"],
        "both answer",
    ),
    IceMistake(
        "heirs drop their copies",
        "an heir holds its copy until told otherwise (overlay/ice/estates.py)",
        mistaken(succession=ForgetfulHeir),
        SCENES["crash"],
        "can inherit",
    ),
    IceMistake(
        "no estates",
        "who takes the place of the dead takes over what they kept (overlay/ice/inquest.py)",
        mistaken(inquest=NoHeirs),
        SCENES["crash"],
        "missing",
    ),
    IceMistake(
        "no tidying",
        "whoever has a spare piece gives it away (overlay/ice/parting.py)",
        NO_TIDYING,
        SCENES["crash"],
        "pieces",
    ),
)
"""Searched for in the first scenes of random change."""
NO_DUTY = IceMistake(
    "a leaver forgets the dead",
    "a leaver stays while it holds what the dead kept (overlay/ice/parting.py)",
    mistaken(parting=NoDuty),
    {},
    "missing",
)
NO_SETTLING = IceMistake(
    "no time to settle",
    "what is seized answers when rivals have had time to meet (overlay/ice/inquest.py)",
    mistaken(inquest=NoSettling),
    {},
    "both answer",
)
SILENT_GIVER = IceMistake(
    "a giver declines nothing that it has a part of",
    "what was taken back is declined (overlay/ice/gives.py)",
    mistaken(giver=SilentGiver, parting=NoTidying),
    {},
    "not firm: provisional",
)
DIRECTED = (NO_DUTY, NO_SETTLING, SILENT_GIVER)
"""Each in a scene made for it (`test_ice_life.py`)."""
