"""A member that is served by a station, a server or a broker: it tells the station what it is and what to carry.

With receipts
- a request is repeated until the station answers, a cast until nothing about it is open;
- the member reminds the station of itself, and says again what the station does not know: the station may have
  forgotten a silent member, lost its memory, or be another one than before.

A member that begins again with what it had kept says what it was, under its new life. If its disk was an old copy, the
station knows a later life and says so; the member goes above it.
"""

from implicast.casting.central_subscriptions import Announce
from implicast.casting.complaints import Complain, Slowing
from implicast.casting.roster import Enrolled
from implicast.casting.service import (
    DRY,
    Carried,
    Check,
    CheckRound,
    Known,
    Outdated,
    Publish,
    Register,
    Stored,
)
from implicast.casting.telling import Hearing
from implicast.language.target import Description, Target
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.contract import Address, CastId, Message, Version, handles
from implicast.peer.events import Estimated, Left, Refused, Registered, Settled, Slowed, Withdrawn
from implicast.peer.member import Member
from implicast.peer.site import Site
from implicast.peer.words import Said

REGISTER, CAST = "register", "cast"
REGISTER_PATIENCE = Patience(2_000_000, times=1 << 30)
CAST_PATIENCE = Patience(2_000_000, times=60, factor=1.1)
"""A hundred minutes, ever more slowly."""
CHECK_AGAIN_US = 1_000_000
"""How soon a reminder without an answer is repeated."""
REQUESTS_MAX = 4_096
"""Casts that may await an answer; further ones are refused."""
ESTIMATES = 1 << 47
"""Serials from here on name no casts but estimates."""

Request = Publish | Announce


class Served(Member, parts={"asker": Asker, "hearing": Hearing}):
    """A member and its station; None while the station is looked for."""

    __slots__ = (
        "_checked_us",
        "_checking",
        "_complete",
        "_estimates",
        "_in_vain",
        "asker",
        "check_us",
        "hearing",
        "leaving",
        "requests",
        "station",
    )

    def __init__(self, site: Site, station: Address | None, check_us: int) -> None:
        """`check_us`: how often the member reminds its station."""
        super().__init__(site)
        self.station = station
        self.asker = Asker(site.address, site.host)
        self.asker.topic(REGISTER, REGISTER_PATIENCE)
        self.asker.topic(CAST, CAST_PATIENCE, self._cast_lost)
        self.hearing = Hearing(self, site.kept.member.heard if site.kept else ())
        self.requests: dict[CastId, Request] = {}
        """Casts about which something is open; without receipts, casts that no station was there for."""
        self.check_us = check_us if site.watched else 0
        self.leaving = False
        self._complete = 0
        self._estimates = 0
        self._checking, self._checked_us, self._in_vain = False, -self.check_us, 0

    def leave(self) -> None:
        self.leaving = True
        self.withdraw()

    def register(self, description: Description | None) -> None:
        self.describe(description)
        self.say()

    def withdraw(self) -> None:
        self.register(None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        return self.ask_for(Publish(cast, target, self.words.seal(cast, target, payload)))

    def estimate(self, target: Target) -> int:
        self._estimates += 1
        cast = CastId(self.name, self.incarnation, ESTIMATES + self._estimates)
        self.ask_for(Publish(cast, target, self.words.seal(cast, (DRY, target), b""), dry=True))
        return self._estimates

    def complain(self, cast: CastId) -> bool:
        """To the station: it is the one that tells."""
        if self.station is None:
            return False
        self.host.send(self.station, self.words.say(Complain(cast, self.name)))
        return True

    def enrol(self, description: Description) -> Enrolled:
        """Be this, and known as this to the station, which is to keep the answer."""
        self._complete = self.describe(description)
        self.keep_in_touch()
        self.host.deliver(Registered(self.version))
        said = self.words.say(Register(self.name, self.version, self.description))
        return Enrolled(
            self.contact, self.version, self.description, said if isinstance(said, Said) else None
        )

    # --- what the station is told

    def meet(self, station: Address) -> None:
        """There is a station: tell it all that is to be told."""
        self.station = station
        self._in_vain = 0
        if self.description is not None and not self.version:
            self.register(self.description)  # kept from an earlier life
        elif self.description is not None or self.version > self._complete:
            self.say()
        waiting = list(self.requests.values())
        if not self.assured:
            self.requests.clear()
        for request in waiting:
            self._send(request)

    def part(self) -> None:
        """The station is lost."""
        self.station = None
        self.asker.drop(REGISTER, 0)
        for cast in self.requests:
            self.asker.drop(CAST, cast)

    def say(self) -> None:
        """Tell the station the newest description, until it is kept."""
        self.keep_in_touch()
        if self.station is not None:
            register = self.words.say(Register(self.name, self.version, self.description))
            self.asker.ask(REGISTER, 0, self.station, register)

    def ask_for(self, request: Request) -> CastId:
        """Ask the station to carry this; refused when too much is open."""
        self.keep_in_touch()
        if len(self.requests) >= REQUESTS_MAX:
            self.host.deliver(Refused("cast", f"{REQUESTS_MAX} casts await an answer already"))
            return request.cast
        if self.assured or self.station is None or request.dry:
            self.requests[request.cast] = request
        if self.station is not None:
            self._send(request)
        return request.cast

    def _send(self, request: Request) -> None:
        assert self.station is not None, "requests wait until there is a station"
        if self.assured:
            self.asker.ask(CAST, request.cast, self.station, request)
        else:
            self.host.send(self.station, request)

    def _cast_lost(self, cast: CastId, question: Question) -> None:
        self.requests.pop(cast, None)
        self.host.deliver(Refused("cast", "nobody has answered for a hundred minutes"))

    # --- what the station answers

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        if (
            sender != self.station
            or stored.version != self.version
            or not self.asker.answered(REGISTER, 0)
        ):
            return
        if stored.version > self._complete:
            self._complete = stored.version
            self.host.deliver(
                (Withdrawn if self.description is None else Registered)(stored.version)
            )
            if self.leaving:
                self.host.deliver(Left())

    @handles(Outdated)
    def on_outdated(self, sender: Address, outdated: Outdated) -> None:
        """Where words are signed, the member's own later word is shown to it instead (`shown`)."""
        if sender == self.station and not self.words.signed:
            self._go_above(outdated.version)

    def _go_above(self, told: Version) -> None:
        if self.version and told > self.version:
            self.outlive(told)
            self.say()

    def shown(self, message: Message) -> None:
        if isinstance(message, Register):
            self._go_above(message.version)

    @handles(Carried)
    def on_carried(self, sender: Address, carried: Carried) -> None:
        request = self.requests.get(carried.cast)
        if sender != self.station or request is None:
            return
        if not carried.open:
            del self.requests[carried.cast]
            self.asker.answered(CAST, carried.cast)
        if request.dry:
            messages = (1 + carried.notified) * (2 if self.assured else 1)
            self.host.deliver(
                Estimated(carried.cast.serial - ESTIMATES, carried.notified, messages)
            )
        else:
            counts = (carried.notified, carried.unreachable, carried.declined, carried.open)
            self.host.deliver(Settled(carried.cast, *counts, carried.silent))

    @handles(Slowing)
    def on_slowing(self, sender: Address, slowing: Slowing) -> None:
        if sender == self.station and slowing.cast.publisher == self.name:
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))

    # --- reminding

    @property
    def settled(self) -> bool:
        """Is there a description, and the newest one complete?"""
        return self.description is not None and self._complete == self.version

    def keep_in_touch(self) -> None:
        """From now on, remind the station every so often."""
        if self.check_us and not self._checking:
            self._checking = True
            self.host.after(int(self.check_us * self.host.rng.random()), CheckRound())

    @handles(CheckRound)
    def on_check_round(self, alarm: CheckRound) -> None:
        if self.leaving and self._complete == self.version:
            return
        left_us = self._checked_us + self.check_us - self.host.now_us
        if self.station is not None and not self._in_vain and left_us > 0:
            self.host.after(left_us, CheckRound())
            return
        self.host.after(min(CHECK_AGAIN_US, self.check_us), CheckRound())
        if self.station is not None:
            self.check(self._in_vain)

    def check(self, in_vain: int) -> None:
        """Remind the station, which has not answered so many reminders."""
        assert self.station is not None, "without a station there is nobody to remind"
        self._in_vain += 1
        self.host.send(self.station, Check(self.name, self.version))

    @handles(Known)
    def on_known(self, sender: Address, known: Known) -> None:
        if sender != self.station:
            return
        self._in_vain, self._checked_us = 0, self.host.now_us
        if self.asker.open(REGISTER, 0) is None and known.version != self.version:
            if known.version > self.version:
                self.on_outdated(sender, Outdated(known.version))
            elif self.description is not None:
                self.say()
