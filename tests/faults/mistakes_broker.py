"""Mistakes of BROKER: its views, its filters, its clients."""

from mistake import Mistake

from implicast.casting import reliable
from implicast.casting.broker import LivingClient, routes
from implicast.overlay.backbone.living import LivingBackbone
from implicast.overlay.backbone.views import Views

SPLIT = "deed=5..35:split:24+25+26+0+1+2+3"
SMALL = {"peers": 24}


def stand(self, view):
    """After a change of tree, brokers believe empty filters."""
    self.epoch, self.root, self.neighbours = view.epoch, view.root, view.neighbours
    self.table = self._new_table(view.epoch << 24, view.room)
    self._edges = {neighbour: self._edge() for neighbour in view.neighbours}


def silence(patch):
    """Neither hops nor notifications are said again."""
    patch.setattr(reliable, "REPEATS_MAX", 0)
    patch.setattr(routes, "REPEATS_MAX", 0)


MISTAKES = (
    Mistake(
        "suspicion never forgiven",
        "broker",
        rule="who was lost counts again at its first word (overlay/backbone/views.py)",
        put=lambda patch: patch.setattr(Views, "heard", lambda self, broker: self.detector.heard(broker)),
        says="invariants",
        churn=SPLIT,
        changes=SMALL,
    ),
    Mistake(
        "the lost never asked again",
        "broker",
        rule="the lost are asked now and then: a partition may have ended (overlay/backbone/views.py)",
        put=lambda patch: patch.setattr(Views, "_ask_again", lambda self, lost: None),
        says="invariants",
        churn="deed=5..95:split:24+25+26",
        changes=SMALL,
    ),
    Mistake(
        "filters not rebuilt",
        "broker",
        rule="with each new tree filters are built anew, and casts flood meanwhile (overlay/backbone/living.py)",
        put=lambda patch: patch.setattr(LivingBackbone, "follow", stand),
        says="missing",
        churn="deed=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "clients that stay",
        "broker",
        rule="a client whose broker is lost goes to another (casting/broker/alive_client.py)",
        put=lambda patch: patch.setattr(LivingClient, "_lose", lambda self, broker: None),
        says="does not know what its client",
        churn="deed=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "hops sent once",
        "broker",
        rule="a hop of a cast is repeated until the neighbour answers (casting/broker/routes.py)",
        put=silence,
        says="missing",
    ),
)
