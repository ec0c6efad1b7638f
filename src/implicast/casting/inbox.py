"""What every member does with a notification, whatever the design: at most once, and only what fits.

A repeat is recognised by publisher and serial. Per publisher the inbox keeps the largest serial and a bitmap of the
window below it, so its memory does not grow with the number of casts; what lies below the window counts as heard.
"""

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
        self._publishers: dict[Address, int | tuple[int, int]] = {}
        # Newest serial and bitmap; the serial alone while it is the only one, as with most publishers.

    def first(self, cast: CastId) -> bool:
        """True for the first meeting with this cast."""
        publishers = self._publishers
        entry = publishers.get(cast.publisher)
        if entry is None:
            publishers[cast.publisher] = cast.serial
            if len(publishers) > PUBLISHERS_MAX:
                del publishers[next(iter(publishers))]
            return True
        newest, bitmap = (entry, 1) if isinstance(entry, int) else entry
        new, entry = _met(newest, bitmap, cast.serial)
        if len(publishers) > PUBLISHERS_MAX // 2:
            # Only now does it matter who was heard last: dicts keep the order in which keys were entered.
            del publishers[cast.publisher]
        publishers[cast.publisher] = entry
        return new


def _met(newest: int, bitmap: int, serial: int) -> tuple[bool, tuple[int, int]]:
    """Is this serial new, and what is known after it. Bit i of the map stands for serial `newest - i`."""
    ahead = serial - newest
    if ahead > 0:
        bitmap = ((bitmap << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
        return True, (serial, bitmap)
    bit = 1 << -ahead if -ahead < WINDOW else 0
    return bool(bit & ~bitmap), (newest, bitmap | bit)


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
