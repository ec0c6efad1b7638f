"""Mistakes of BROKER: its views, its filters, its clients."""

from mistake import Mistake

from implicast.casting import routes, telling
from implicast.casting.broker import BrokerClient
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.views import Views
from implicast.peer.asking import Patience

SPLIT = "deed=5..35:split:24+25+26+0+1+2+3"
SMALL = {"peers": 24}


def silence(patch):
    """Neither hops nor notifications are said again."""
    for module in (telling, routes):
        patch.setattr(module, "PATIENCE", Patience(2_000_000, times=1))


MISTAKES = (
    Mistake(
        "suspicion never forgiven",
        "broker",
        rule="who was lost counts again at its first word (overlay/backbone/views.py)",
        put=lambda patch: patch.setattr(
            Views, "heard", lambda self, broker: self.detector.heard(broker)
        ),
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
        rule="with each new tree filters are built anew, and casts flood meanwhile (overlay/backbone/backbone.py)",
        put=lambda patch: patch.setattr(Backbone, "follow", Backbone.stand),
        says="missing",
        churn="deed=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "clients that stay",
        "broker",
        rule="a client whose broker is lost goes to another (casting/broker/client.py)",
        put=lambda patch: patch.setattr(BrokerClient, "check", lambda self, in_vain: None),
        says="does not know what its client",
        churn="deed=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "hops sent once",
        "broker",
        rule="a hop of a cast is repeated until the neighbour answers (casting/routes.py)",
        put=silence,
        says="missing",
    ),
)
