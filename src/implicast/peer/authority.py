"""The authority as data: who is enrolled, who holds which place, what counts no more. No network, no disk, no clock.

Where an applicant stands inside a realm and in which rings, the authority draws by a hash of name and realm, keyed with
its secret: asking again gives the same place, so there is nothing to try, and nobody else can work it out. The secret
is older than any name (the public key that names are enrolled under is made from it), so the authority cannot choose a
place for a name either.

What one applicant can make the authority, and with it everybody, remember is bounded: places held, realms tried,
certificates of one place, and certificates given up that have not expired. Who has used up its share is declined.
"""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from implicast.peer.contract import NUMBER_BITS, Address, Incarnation, Message, Name
from implicast.peer.errors import LocalError
from implicast.peer.fields import ITEMS_MAX, Token
from implicast.peer.identity import TAIL_BYTES, Certificate, Enrolment, Revocation
from implicast.peer.memory import Recent
from implicast.peer.name import CHANCE_BITS
from implicast.peer.signatures import Scheme, Signer
from implicast.space.vector import Vectors

PLACES_MAX = 128
"""Default bound on the places one applicant may hold."""
TRIALS_MAX = 1_024
"""Realms one applicant may ever ask for: each shows it one more place, and it might keep the best."""
RENEWALS_MAX = 3
"""Certificates of one place that count at a time; a further one makes the oldest void."""
GIVEN_UP_MAX = 1_024
"""Certificates of one applicant that are void and have not expired: so long is its share of everybody's list."""
REVOKED_LOOKED_AT = 1_024
"""Beyond so many, and beyond twice those that were left, the authority drops revoked certificates that have expired."""
SHOWN_MAX = 1_024
"""Forgotten lists taken over that are remembered: who shows one again is not listened to."""
VALIDITY_US = 365 * 86_400 * 1_000_000
FOR_EVER_US = 1 << 62


class GrantDeclined(LocalError):
    """The authority gives no certificate; the text says why."""


class PlacesHeld(Message):
    """What the authority keeps of one applicant."""

    name: Name
    places: tuple[tuple[bytes, tuple[Certificate, ...]], ...]
    """By realm, every certificate that may still be valid, the newest last."""
    tried: tuple[bytes, ...]
    given_up: tuple[int, ...] = ()
    """Until when each certificate would have counted that is void."""


class Roll(Message):
    """What the authority writes down: numbers never come again, and places stay given."""

    number: Token
    revoked: tuple[tuple[int, int], ...]
    holders: tuple[PlacesHeld, ...]
    listed: Token = 0
    """The number of the newest list that left, or was shown to it."""
    expelled: tuple[Name, ...] = ()


class Authority:
    """Gives places, at most `places_max` per applicant, and takes them back.

    Certificates and lists of revoked ones are numbered by one counter that begins with the authority's life: what was
    written down before a crash is below it. With an old copy of its disk the authority learns from the applicants how
    far it had counted (`count_on_from`).
    """

    def __init__(
        self,
        scheme: Scheme,
        secret: bytes,
        vectors: Vectors,
        places_max: int = PLACES_MAX,
        validity_us: int = VALIDITY_US,
        incarnation: Incarnation = 0,
        roll: Roll | None = None,
    ) -> None:
        self._signer: Signer = scheme.signer(_draw(secret, b"key", size=32))
        self._scheme, self._secret, self._vectors = scheme, secret, vectors
        self._places_max, self._validity_us, self._incarnation = (
            places_max,
            validity_us,
            incarnation,
        )
        roll = roll or Roll(0, (), ())
        self._number = incarnation << NUMBER_BITS
        self._count_above(roll.number)
        self._places: dict[Name, dict[bytes, tuple[Certificate, ...]]] = {
            each.name: dict(each.places) for each in roll.holders
        }
        self._tried: dict[Name, set[bytes]] = {each.name: set(each.tried) for each in roll.holders}
        self._given_up: dict[Name, list[int]] = {
            each.name: list(each.given_up) for each in roll.holders
        }
        self._expelled = dict.fromkeys(roll.expelled)
        self._revoked = dict(roll.revoked)  # serial -> until_us; then it need not be
        self._crowded = REVOKED_LOOKED_AT
        self._listed = self._after = self._begun_after = roll.listed
        self._own: set[int] = set()  # lives under whose numbers lists left in this one
        self._shown: Recent[int, None] = Recent(SHOWN_MAX)  # forgotten lists that were taken over
        self._list: Revocation | None = None
        self._fresh_until_us = FOR_EVER_US  # then something on the list has expired

    @property
    def public(self) -> bytes:
        return self._signer.public

    @property
    def listed(self) -> int:
        """The number of the newest list that it knows of."""
        return self._listed

    def roll(self) -> Roll:
        """All that must outlive a crash."""
        holders = [
            PlacesHeld(
                name,
                tuple(places.items()),
                tuple(sorted(self._tried.get(name, ()))),
                tuple(self._given_up.get(name, ())),
            )
            for name, places in self._places.items()
        ]
        return Roll(
            self._number,
            tuple(self._revoked.items()),
            tuple(holders),
            self._listed,
            tuple(self._expelled),
        )

    # --- who

    def enrol(self, name: Name, public: bytes) -> Enrolment:
        """Admit a name with its key. People decide."""
        bare = Enrolment(name, public, b"")
        return Enrolment(name, public, self._signer.sign(bare.body()))

    def admits(self, enrolment: Enrolment) -> bool:
        """Whether this name was enrolled with this key, and not expelled since."""
        is_genuine = self._scheme.verify(self.public, enrolment.body(), enrolment.signature)
        return is_genuine and enrolment.name not in self._expelled

    def has_expelled(self, name: Name) -> bool:
        return name in self._expelled

    def expel(self, name: Name) -> None:
        """A name counts no more, for good: neither its certificates nor any that it may still be given."""
        self._expelled[name] = None
        self._list = None
        self._void(each for some in self._places.pop(name, {}).values() for each in some)

    # --- where

    def place(self, applicant: Name, realm: bytes) -> tuple[bytes, int]:
        """Key and vector that belong to an applicant in a realm; nobody else can work them out."""
        key = realm + _draw(self._secret, b"tail", applicant, realm, size=TAIL_BYTES)
        return key, self._vectors.draw(_draw(self._secret, b"vector", size=32), applicant, key)

    def issue(
        self, applicant: Name, realm: bytes, address: Address, public: bytes, now_us: int
    ) -> Certificate:
        """The certificate of an applicant's place in a realm: a renewal if it holds one there. Or `Declined`."""
        held = self._places.setdefault(applicant, {})
        live = [each for each in held.get(realm, ()) if each.until_us > now_us]
        given_up = self._given_up[applicant] = [
            each for each in self._given_up.get(applicant, ()) if each > now_us
        ]
        if (
            len(given_up) >= GIVEN_UP_MAX
            and live
            and (live[-1].address, live[-1].public) == (address, public)
        ):
            return live[-1]  # what it has will do
        self._decline(applicant, realm, held, len(given_up))
        self._tried.setdefault(applicant, set()).add(realm)
        if len(self._revoked) > self._crowded:
            self._forget_expired(now_us)
        issued = self._certify(*self.place(applicant, realm), applicant, address, public, now_us)
        kept = [each for each in live if each.address == address][1 - RENEWALS_MAX :]
        self._void(each for each in live if each not in kept)
        held[realm] = (*kept, issued)
        return issued

    def _decline(
        self, applicant: Name, realm: bytes, held: dict[bytes, tuple[Certificate, ...]], gone: int
    ) -> None:
        tried = self._tried.get(applicant, ())
        if applicant in self._expelled:
            raise GrantDeclined(f"{applicant.hex()} was expelled")
        if realm not in held and len(held) >= self._places_max:
            raise GrantDeclined(
                f"{applicant.hex()} holds {len(held)} places, which is all an applicant may"
            )
        if realm not in tried and len(tried) >= TRIALS_MAX:
            raise GrantDeclined(
                f"{applicant.hex()} has tried {len(tried)} realms, which is all an applicant may"
            )
        if gone >= GIVEN_UP_MAX:
            raise GrantDeclined(
                f"{applicant.hex()} has given up {gone} certificates that have not expired: ask later"
            )

    def _certify(
        self, key: bytes, vector: int, name: Name, address: Address, public: bytes, now_us: int
    ) -> Certificate:
        until_us = now_us + self._validity_us
        bare = Certificate(
            key, vector, name, address, public, self._next_number(), now_us, until_us, b""
        )
        return msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def held(self, applicant: Name) -> tuple[Certificate, ...]:
        """The newest certificate of each place that an applicant holds."""
        return tuple(each[-1] for each in self._places.get(applicant, {}).values())

    # --- what counts no more

    def release(self, applicant: Name, realm: bytes) -> bool:
        """The applicant gives a place up. All its certificates join the revoked, or the limit could be passed by and
        by. False if it held none there."""
        given_up = self._places.get(applicant, {}).pop(realm, ())
        return self._void(given_up)

    def vacate(self, applicant: Name, address: Address) -> bool:
        """The applicant is at this address no more: its certificates for it join the revoked. False if it had none."""
        places = self._places.get(applicant, {})
        return self._void(
            [each for some in places.values() for each in some if each.address == address]
        )

    def _void(self, certificates: Iterable[Certificate]) -> bool:
        fresh = {each.serial: each for each in certificates if each.serial not in self._revoked}
        for serial, each in fresh.items():
            self._revoked[serial] = each.until_us
            self._given_up.setdefault(each.name, []).append(each.until_us)
        if fresh:
            self._list = None
        return bool(fresh)

    def revoke(self, now_us: int, *certificates: Certificate) -> Revocation:
        """Declare certificates void; the list of all that are."""
        self._void(certificates)
        return self.revocation(now_us)

    def revocation(self, now_us: int) -> Revocation:
        """The signed list of what counts no more, under a new number if it has changed."""
        if self._list is None or now_us >= self._fresh_until_us:
            self._forget_expired(now_us)
            self._fresh_until_us = min(self._revoked.values(), default=FOR_EVER_US)
            last = sorted(self._revoked, key=lambda serial: (self._revoked[serial], serial))[
                -ITEMS_MAX:
            ]
            self._listed = self._next_number()
            self._own.add(self._listed >> NUMBER_BITS)
            names = tuple(sorted(self._expelled))
            bare = Revocation(self._listed, tuple(sorted(last)), b"", self._after, names)
            self._list = msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))
        return self._list

    @property
    def has_revoked(self) -> bool:
        return bool(self._revoked or self._expelled)

    @property
    def has_news(self) -> bool:
        """Whether something counts no more that is on no list yet."""
        return self._list is None and self.has_revoked

    # --- after a crash

    def count_on_from(self, newest: Certificate | Revocation, now_us: int) -> bool:
        """A member shows what this authority has signed: it must not count from below that again. False if it knew."""
        number = newest.number if isinstance(newest, Revocation) else newest.serial
        is_news = (
            self._is_forgotten(number) if isinstance(newest, Revocation) else number > self._number
        )
        if not is_news or not self._scheme.verify(self.public, newest.body(), newest.signature):
            return False
        if isinstance(newest, Revocation):
            self._take_over(newest, now_us)
        self._count_above(number)
        return True

    def _is_forgotten(self, number: int) -> bool:
        """Whether a list of this number left in a life after the one that our disk remembers, and before ours."""
        return (
            number > self._begun_after
            and number not in self._shown
            and number >> NUMBER_BITS not in self._own
        )

    def _take_over(self, shown: Revocation, now_us: int) -> None:
        """A list that was forgotten: what it names counts no more, and later lists come after it."""
        self._shown[shown.number] = None
        self._revoked = dict.fromkeys(shown.serials, now_us + self._validity_us) | self._revoked
        for name in shown.names:
            self.expel(name)
        self._listed, self._after = max(self._listed, shown.number), max(self._after, shown.number)
        self._list = None

    def _count_above(self, number: int) -> None:
        """Far above: more may have been signed in the life that was forgotten than a member has seen. The chance in our
        own life tells apart two that begin from the same old copy."""
        bits = NUMBER_BITS + CHANCE_BITS
        chance = (self._incarnation & (1 << CHANCE_BITS) - 1) << NUMBER_BITS
        if number > self._number:
            self._number = ((number >> bits) + 1 << bits) | chance

    def _forget_expired(self, now_us: int) -> None:
        """Whoever gives places up and asks for others adds to the revoked for ever, though nobody publishes a list."""
        self._revoked = {
            serial: until_us for serial, until_us in self._revoked.items() if until_us > now_us
        }
        self._crowded = max(REVOKED_LOOKED_AT, 2 * len(self._revoked))


def _draw(secret: bytes, *names: bytes, size: int) -> bytes:
    state = blake2b(key=secret[:64], digest_size=size)
    for name in names:
        state.update(len(name).to_bytes(4, "big") + name)
    return state.digest()
