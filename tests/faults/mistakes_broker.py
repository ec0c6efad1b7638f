"""Mistakes of BROKER: its views, its filters, its clients."""

from mistake import Mistake

from implicast.casting import forwarding, notifier
from implicast.casting.broker import BrokerClient
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.views import Views
from implicast.peer.requests import RetryPolicy

SPLIT = "event=5..35:split:24+25+26+0+1+2+3"
SMALL = {"peers": 24}


def silence(patch):
    """Neither hops nor notifications are said again."""
    for module in (notifier, forwarding):
        patch.setattr(module, "RETRY", RetryPolicy(2_000_000, times=1))


MISTAKES = (
    Mistake(
        "suspicion never forgiven",
        "broker",
        rule="a lost broker counts again at its first message (overlay/backbone/views.py)",
        put=lambda patch: patch.setattr(
            Views, "heard_from", lambda self, broker: self.detector.heard_from(broker)
        ),
        says="invariants",
        churn=SPLIT,
        changes=SMALL,
    ),
    Mistake(
        "lost brokers are not probed",
        "broker",
        rule="lost brokers are probed now and then, because a partition may have ended "
        "(overlay/backbone/views.py)",
        put=lambda patch: patch.setattr(Views, "probe_lost", lambda self, lost: None),
        says="invariants",
        churn="event=5..95:split:24+25+26",
        changes=SMALL,
    ),
    Mistake(
        "filters not rebuilt",
        "broker",
        rule="filters are rebuilt with each new tree; until then casts are flooded "
        "(overlay/backbone/backbone.py)",
        put=lambda patch: patch.setattr(Backbone, "follow", Backbone.restore),
        says="missing",
        churn="event=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "clients stay with a lost broker",
        "broker",
        rule="a client whose broker is lost changes to another (casting/broker/client.py)",
        put=lambda patch: patch.setattr(
            BrokerClient, "send_keep_alive", lambda self, unanswered: None
        ),
        says="does not know what its client",
        churn="event=5:fail:26",
        changes=SMALL,
    ),
    Mistake(
        "hops sent once",
        "broker",
        rule="a hop of a cast is repeated until the neighbour acknowledges it (casting/forwarding.py)",
        put=silence,
        says="missing",
    ),
)
