"""What every member does with a notification, whatever the design: at most once, and only what fits.

A repeat is recognised by publisher and serial. Per publisher the inbox keeps the largest serial and a bitmap of the
window below it, so its memory does not grow with the number of casts; what lies below the window counts as heard.
"""

from collections import OrderedDict

from implicast.language.target import Target
from implicast.peer.contract import Address, CastId
from implicast.peer.events import Notice
from implicast.peer.member import Member

WINDOW = 256
"""How many casts of one publisher may overtake each other."""
PUBLISHERS_MAX = 65_536
"""Publishers remembered; the one not heard from for longest is forgotten first."""


class Seen:
    """Which casts have been met: exact within the window of each publisher."""

    __slots__ = ("_publishers",)

    def __init__(self) -> None:
        self._publishers: OrderedDict[Address, tuple[int, int]] = OrderedDict()

    def first(self, cast: CastId) -> bool:
        """True for the first meeting with this cast."""
        newest, bitmap = self._publishers.pop(cast.publisher, (cast.serial - 1, 0))
        ahead = cast.serial - newest
        if ahead > 0:
            bitmap = ((bitmap << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            newest, new = cast.serial, True
        else:
            bit = 1 << -ahead if -ahead < WINDOW else 0
            new = bool(bit) and not bitmap & bit
            bitmap |= bit
        self._publishers[cast.publisher] = (newest, bitmap)
        if len(self._publishers) > PUBLISHERS_MAX:
            self._publishers.popitem(last=False)
        return new


class Inbox:
    """Guards a member's notices."""

    __slots__ = ("_member", "_seen")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._seen = Seen()

    def take(self, cast: CastId, target: Target, payload: bytes) -> bool:
        """Deliver a notice unless it has been delivered before or the member's newest description does not fit."""
        member = self._member
        if member.description is None or not target.selects(member.description):
            return False
        if not self._seen.first(cast):
            return False
        member.host.deliver(Notice(cast, payload))
        return True
