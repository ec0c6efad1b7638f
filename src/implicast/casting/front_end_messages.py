"""Messages between clients and front ends (servers and brokers)."""

from typing import Annotated

from msgspec import Meta

from implicast.casting.coverage import SILENT_MAX
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message, Name, StandingAlarm, Version
from implicast.peer.fields import Count, Payload, Token
from implicast.peer.signing import signed_by

DRY = "dry"
"""Part of the signed text of a request that only counts, so that it cannot be replayed as a cast.
"""


@signed_by("name")
class Register(Message):
    """A client registers its description; None withdraws it."""

    wire = 0x0201
    name: Name
    version: Version
    description: Description | None


class RegisterAck(Message):
    """This version is stored: every later cast will match against it."""

    wire = 0x0202
    version: Version


class RegisterOutdated(Message):
    """The front end knows a later version of this client. The registration was not stored."""

    wire = 0x0203
    version: Version


class KeepAlive(Message):
    """A client renews its lease, and says which version it last registered."""

    wire = 0x0204
    name: Name
    version: Version


class KeepAliveAck(Message):
    """The version of the client that the front end knows (0: none), and the number of its
    subscriptions.
    """

    wire = 0x0205
    version: Version
    subscriptions: Count = 0


class Publish(Message):
    """A client asks to forward a cast. `dry`: only count the members it would reach."""

    wire = 0x0206
    cast: CastId
    target: Target
    payload: Payload
    dry: bool = False


class CastProgress(Message):
    """Counts of a cast, final when none is open.

    To a client: for all brokers. To a broker: for all brokers on the sender's side of the link, in
    this view.
    """

    wire = 0x0207
    reports_notices = True
    cast: CastId
    epoch: Token
    notified: Count
    unreachable: Count
    declined: Count
    open: Count
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()
    uncertain: Count = 0
    """Front ends that may lack registrations of selected members."""


class BrokerProbe(Message):
    """A client that looks for the nearest broker sends this to all of them and uses the first that
    answers.
    """

    wire = 0x0312


class BrokerProbeAck(Message):
    """A broker that has a view answers a probe."""

    wire = 0x0313


class KeepAliveDue(StandingAlarm):
    """Fires when a client should send a keep-alive, or one is unanswered."""


class LeaseSweep(StandingAlarm):
    """Fires when a front end should remove clients whose lease has expired."""


KINDS: tuple[type[Message], ...] = (
    Register,
    RegisterAck,
    RegisterOutdated,
    KeepAlive,
    KeepAliveAck,
    Publish,
    CastProgress,
)
