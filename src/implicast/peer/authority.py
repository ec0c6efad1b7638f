"""The authority's state machine: enrolled names, places held, revoked certificates. It has no
network, no disk and no clock.

The authority draws an applicant's position inside a realm, and its membership vector, by a hash of
name and realm that is keyed with the authority's secret. Asking again gives the same place, so
there is nothing to gain by retrying, and no other peer can predict it. The secret is older than any
name (the public key under which names are enrolled is derived from it), so the authority cannot
choose a place for a name either.

The memory that one applicant can take up at the authority, and in every peer's revocation list, is
bounded: places held, realms tried, certificates of one place, and given-up certificates that have
not expired. An applicant that has used up its share is declined.
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
"""Realms that one applicant may ever ask for. Each shows it one more place, of which it could keep
the best.
"""
RENEWALS_MAX = 3
"""Certificates of one place that are valid at a time; a further one revokes the oldest."""
GIVEN_UP_MAX = 1_024
"""Void unexpired certificates of one applicant: its share of every peer's revocation list."""
REVOKED_LOOKED_AT = 1_024
"""The authority drops expired entries when it has more revoked certificates than this and than
twice the number left the last time.
"""
SHOWN_MAX = 1_024
"""Remembered adopted revocation lists of forgotten incarnations: a repeat is ignored."""
VALIDITY_US = 365 * 86_400 * 1_000_000
FOR_EVER_US = 1 << 62


class GrantDeclined(LocalError):
    """The authority issues no certificate; the text says why."""


class PlacesHeld(Message):
    """The authority's record of one applicant."""

    name: Name
    places: tuple[tuple[bytes, tuple[Certificate, ...]], ...]
    """By realm, every certificate that may still be valid, the newest last."""
    tried: tuple[bytes, ...]
    given_up: tuple[int, ...] = ()
    """Expiry times of the void certificates."""


class AuthorityState(Message):
    """Durable state of the authority: numbers are never reused, and places stay assigned."""

    number: Token
    revoked: tuple[tuple[int, int], ...]
    holders: tuple[PlacesHeld, ...]
    listed: Token = 0
    """Number of the newest revocation list that was published, or shown by a member."""
    expelled: tuple[Name, ...] = ()


class Authority:
    """Assigns places, at most `places_max` per applicant, and takes them back.

    Certificates and revocation lists are numbered by one counter that starts with the authority's
    incarnation, above everything written before a crash. An authority restored from an old copy of
    its disk learns from the members how far it had counted (`count_on_from`).
    """

    def __init__(
        self,
        scheme: Scheme,
        secret: bytes,
        vectors: Vectors,
        places_max: int = PLACES_MAX,
        validity_us: int = VALIDITY_US,
        incarnation: Incarnation = 0,
        state: AuthorityState | None = None,
    ) -> None:
        self._signer: Signer = scheme.signer(_draw(secret, b"key", size=32))
        self._scheme, self._secret, self._vectors = scheme, secret, vectors
        self._places_max, self._validity_us, self._incarnation = (
            places_max,
            validity_us,
            incarnation,
        )
        state = state or AuthorityState(0, (), ())
        self._number = incarnation << NUMBER_BITS
        self._count_above(state.number)
        self._places: dict[Name, dict[bytes, tuple[Certificate, ...]]] = {
            each.name: dict(each.places) for each in state.holders
        }
        self._tried: dict[Name, set[bytes]] = {each.name: set(each.tried) for each in state.holders}
        self._given_up: dict[Name, list[int]] = {
            each.name: list(each.given_up) for each in state.holders
        }
        self._expelled = dict.fromkeys(state.expelled)
        # serial -> until_us, after which the entry can be dropped
        self.revoked = dict(state.revoked)
        self._crowded = REVOKED_LOOKED_AT
        self._listed = self._after = self._begun_after = state.listed
        self._own: set[int] = set()  # incarnations in whose number range this one published lists
        # adopted lists of forgotten incarnations
        self._shown: Recent[int, None] = Recent(SHOWN_MAX)
        self._list: Revocation | None = None
        self._fresh_until_us = FOR_EVER_US  # then an entry of the list has expired

    @property
    def public(self) -> bytes:
        return self._signer.public

    @property
    def listed(self) -> int:
        """Number of the newest revocation list that it knows of."""
        return self._listed

    def state(self) -> AuthorityState:
        """State that has to survive a crash."""
        holders = [
            PlacesHeld(
                name,
                tuple(places.items()),
                tuple(sorted(self._tried.get(name, ()))),
                tuple(self._given_up.get(name, ())),
            )
            for name, places in self._places.items()
        ]
        return AuthorityState(
            self._number,
            tuple(self.revoked.items()),
            tuple(holders),
            self._listed,
            tuple(self._expelled),
        )

    # --- names

    def enrol(self, name: Name, public: bytes) -> Enrolment:
        """Sign that a name belongs to a key. The decision to admit it is made by people."""
        bare = Enrolment(name, public, b"")
        return Enrolment(name, public, self._signer.sign(bare.body()))

    def admits(self, enrolment: Enrolment) -> bool:
        """Whether this name was enrolled with this key and has not been expelled."""
        is_genuine = self._scheme.verify(self.public, enrolment.body(), enrolment.signature)
        return is_genuine and enrolment.name not in self._expelled

    def has_expelled(self, name: Name) -> bool:
        return name in self._expelled

    def expel(self, name: Name) -> None:
        """Exclude a name for good: its certificates are void, and it gets no others."""
        self._expelled[name] = None
        self._list = None
        self._void(each for some in self._places.pop(name, {}).values() for each in some)

    # --- places

    def place(self, applicant: Name, realm: bytes) -> tuple[bytes, int]:
        """Key and vector of an applicant in a realm, drawn with the authority's secret."""
        key = realm + _draw(self._secret, b"tail", applicant, realm, size=TAIL_BYTES)
        return key, self._vectors.draw(_draw(self._secret, b"vector", size=32), applicant, key)

    def issue(
        self, applicant: Name, realm: bytes, address: Address, public: bytes, now_us: int
    ) -> Certificate:
        """Issue the certificate of an applicant's place in a realm, as a renewal if it holds one
        there. Raises `GrantDeclined`.
        """
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
            return live[-1]  # the limit is reached, and the certificate it has is still good
        self._decline(applicant, realm, held, len(given_up))
        self._tried.setdefault(applicant, set()).add(realm)
        if len(self.revoked) > self._crowded:
            self._forget_expired(now_us)
        issued = self._certify(*self.place(applicant, realm), applicant, address, public, now_us)
        unrevoked = [each for each in live if each.address == address][1 - RENEWALS_MAX :]
        self._void(each for each in live if each not in unrevoked)
        held[realm] = (*unrevoked, issued)
        return issued

    def unreceived(
        self,
        applicant: Name,
        realm: bytes,
        address: Address,
        public: bytes,
        above: int,
        now_us: int,
    ) -> Certificate | None:
        """A certificate of the place that was issued within the last third of a validity, for this
        address and key, with a serial above this number; None if there is none.
        """
        for each in reversed(self._places.get(applicant, {}).get(realm, ())):
            is_new = each.serial > above and each.since_us >= now_us - self._validity_us // 3
            if is_new and (each.address, each.public) == (address, public):
                return None if each.serial in self.revoked else each
        return None

    def _decline(
        self,
        applicant: Name,
        realm: bytes,
        held: dict[bytes, tuple[Certificate, ...]],
        given_up_count: int,
    ) -> None:
        tried = self._tried.get(applicant, ())
        if applicant in self._expelled:
            raise GrantDeclined(f"{applicant.hex()} was expelled")
        if realm not in held and len(held) >= self._places_max:
            raise GrantDeclined(
                f"{applicant.hex()} holds {len(held)} places, the limit for an applicant"
            )
        if realm not in tried and len(tried) >= TRIALS_MAX:
            raise GrantDeclined(
                f"{applicant.hex()} has tried {len(tried)} realms, the limit for an applicant"
            )
        if given_up_count >= GIVEN_UP_MAX:
            raise GrantDeclined(
                f"{applicant.hex()} has {given_up_count} void certificates that have not "
                "expired; ask later"
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

    # --- revocation

    def release(self, applicant: Name, realm: bytes) -> bool:
        """The applicant gives up a place; False if it held none there. All certificates of the
        place are revoked, else an applicant could exceed the limit by giving up and asking again.
        """
        given_up = self._places.get(applicant, {}).pop(realm, ())
        return self._void(given_up)

    def vacate(self, applicant: Name, address: Address) -> bool:
        """The applicant is no longer at this address: its certificates for it are revoked. False if
        it had none.
        """
        places = self._places.get(applicant, {})
        return self._void(
            [each for some in places.values() for each in some if each.address == address]
        )

    def _void(self, certificates: Iterable[Certificate]) -> bool:
        fresh = {each.serial: each for each in certificates if each.serial not in self.revoked}
        for serial, each in fresh.items():
            self.revoked[serial] = each.until_us
            self._given_up.setdefault(each.name, []).append(each.until_us)
        if fresh:
            self._list = None
        return bool(fresh)

    def revoke(self, now_us: int, *certificates: Certificate) -> Revocation:
        """Revoke certificates, and return the list of all that are revoked."""
        self._void(certificates)
        return self.revocation(now_us)

    def revocation(self, now_us: int) -> Revocation:
        """The signed list of revoked certificates and expelled names, under a new number if it has
        changed.
        """
        if self._list is None or now_us >= self._fresh_until_us:
            self._forget_expired(now_us)
            self._fresh_until_us = min(self.revoked.values(), default=FOR_EVER_US)
            last = sorted(self.revoked, key=lambda serial: (self.revoked[serial], serial))[
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
        return bool(self.revoked or self._expelled)

    @property
    def has_news(self) -> bool:
        """Whether something was revoked that no list contains yet."""
        return self._list is None and self.has_revoked

    # --- after a crash

    def count_on_from(self, newest: Certificate | Revocation, now_us: int) -> bool:
        """A member shows something that this authority signed and may have forgotten: continue
        counting above it. False if it was known.
        """
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
        """Whether a list of this number was published after the state on our disk was written and
        before this incarnation.
        """
        return (
            number > self._begun_after
            and number not in self._shown
            and number >> NUMBER_BITS not in self._own
        )

    def _take_over(self, shown: Revocation, now_us: int) -> None:
        """Adopt a forgotten list: what it names is revoked, and later lists refer to it."""
        self._shown[shown.number] = None
        self.revoked = dict.fromkeys(shown.serials, now_us + self._validity_us) | self.revoked
        for name in shown.names:
            self.expel(name)
        self._listed, self._after = max(self._listed, shown.number), max(self._after, shown.number)
        self._list = None

    def _count_above(self, number: int) -> None:
        """Continue far above this number, because the forgotten incarnation may have signed more
        than a member has seen. The random bits of our own incarnation separate two authorities that
        start from the same old copy.
        """
        bits = NUMBER_BITS + CHANCE_BITS
        chance = (self._incarnation & (1 << CHANCE_BITS) - 1) << NUMBER_BITS
        if number > self._number:
            self._number = ((number >> bits) + 1 << bits) | chance

    def forget_departed(self, now_us: int) -> list[Name]:
        """Drop expired certificates and expired void ones; returns the names left without any. The
        realms that a name tried stay: otherwise it could try `TRIALS_MAX` others each time.
        """
        departed = list[Name]()
        for name in list(self._places):
            places = {
                realm: live
                for realm, some in self._places[name].items()
                if (live := tuple([each for each in some if each.until_us > now_us]))
            }
            given_up = [each for each in self._given_up.get(name, ()) if each > now_us]
            self._places[name], self._given_up[name] = places, given_up
            if not places and not given_up:
                del self._given_up[name]
                departed.append(name)
        return departed

    def _forget_expired(self, now_us: int) -> None:
        """Drop expired entries. An applicant that gives up places and asks for others adds to the
        revoked certificates even when no list is published.
        """
        self.revoked = {
            serial: until_us for serial, until_us in self.revoked.items() if until_us > now_us
        }
        self._crowded = max(REVOKED_LOOKED_AT, 2 * len(self.revoked))


def _draw(secret: bytes, *names: bytes, size: int) -> bytes:
    state = blake2b(key=secret[:64], digest_size=size)
    for name in names:
        state.update(len(name).to_bytes(4, "big") + name)
    return state.digest()
