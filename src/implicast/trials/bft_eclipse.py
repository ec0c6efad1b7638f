"""Eclipse resistance: the share of liars in the neighbour lists of honest peers, when a fraction of
the applicants collude.

Liars apply under as many names and realms as they like; the authority draws their places.
"""

from implicast.peer.authority import Authority, GrantDeclined
from implicast.peer.identity import Certificate, Trust
from implicast.peer.name import name_of
from implicast.peer.signatures import scheme
from implicast.space.digest import digest, stream
from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph

Row = dict[str, float | int | str]

HOME = b"h"
ATTEMPTS = 8
"""Places that each liar applies for; it is granted those of one applicant."""


def eclipse_row(n: int, k: int, f: float, seed: int = 0, places_max: int = 1) -> Row:
    """Mean and largest share of liars among an honest peer's contacts, beside their share of the
    applicants.
    """
    vectors, secret = Vectors(2), digest("eclipse", seed)
    authority = Authority(scheme("stand-in", secret), secret, vectors, places_max)
    liars = set(stream(seed, "eclipse", n, f).sample(range(n), round(f * n)))
    certificates: list[Certificate] = []
    for applicant in range(n):
        certificates += _granted(authority, applicant, ATTEMPTS if applicant in liars else 1)
    assembled: AssembledGraph[Certificate] = AssembledGraph(k, vectors, certificates)
    shares = [_share(assembled, each, liars) for each in certificates if each.address not in liars]
    mean, largest = sum(shares) / len(shares), max(shares)
    return {
        "n": n,
        "k": k,
        "f": f,
        "places": len(certificates),
        "share_mean": mean,
        "share_max": largest,
    }


def _granted(authority: Authority, applicant: int, attempts: int) -> list[Certificate]:
    """The certificates that an applicant is granted when it applies `attempts` times, each time for
    another realm.
    """
    found: list[Certificate] = []
    for attempt in range(attempts):
        try:
            found.append(
                authority.issue(
                    name_of(b"", applicant), HOME + b"%d" % attempt, applicant, bytes(32), 0
                )
            )
        except GrantDeclined:
            break
    return found


def _share(assembled: AssembledGraph[Certificate], owner: Certificate, liars: set[int]) -> float:
    contacts = assembled.table(owner.key).contacts()
    return sum(node.address in liars for node in contacts) / len(contacts)


def hoarding_row(n: int = 500, k: int = 4, f: float = 0.1, rounds: int = 100, seed: int = 0) -> Row:
    """Share of liars in honest lists after they have taken, renewed and released places `rounds`
    times, beside f.

    Every name holds its home and one tag, which is the limit. Liars keep all certificates that they
    were ever granted; honest peers list those that their newest revocation list does not name.
    """
    vectors, secret = Vectors(2), digest("hoarding", seed)
    signing = scheme("stand-in", secret)
    authority = Authority(signing, secret, vectors, places_max=2)
    liars = set(stream(seed, "hoarding", n, f).sample(range(n), round(f * n)))
    certificates = [
        each for applicant in range(n) for each in _taken(authority, applicant, [HOME, b"tjazz\0"])
    ]
    for number in range(rounds):
        for liar in sorted(liars):
            certificates += _hoarded(authority, liar, number)
    trust = Trust(signing, authority.public, vectors)
    trust.learn(authority.revocation(0))
    valid = {each.key: each for each in certificates if trust.flaw(each, 0) is None}
    assembled: AssembledGraph[Certificate] = AssembledGraph(k, vectors, list(valid.values()))
    shares = [
        _share(assembled, each, liars) for each in valid.values() if each.address not in liars
    ]
    held = sum(trust.flaw(each, 0) is None for each in certificates if each.address == min(liars))
    return {
        "n": n,
        "k": k,
        "f": f,
        "issued": len(certificates),
        "valid_of_one_liar": held,
        "share_mean": sum(shares) / len(shares),
        "against_f": sum(shares) / len(shares) / f,
    }


def _taken(authority: Authority, applicant: int, realms: list[bytes]) -> list[Certificate]:
    name = name_of(b"", applicant)
    return [authority.issue(name, realm, applicant, bytes(32), 0) for realm in realms]


def _hoarded(authority: Authority, liar: int, number: int) -> list[Certificate]:
    """Release the tag, take another, renew it, and take the first again."""
    name, found = name_of(b"", liar), list[Certificate]()
    wanted = [b"tother%d\0" % number, b"tother%d\0" % number, b"tjazz\0"]
    for realm in wanted:
        for held in authority.held(name):
            if held.realm not in (HOME, realm):
                authority.release(name, held.realm)
        try:
            found.append(authority.issue(name, realm, liar, bytes(32), 0))
        except GrantDeclined:
            continue
    return found
