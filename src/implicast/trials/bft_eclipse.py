"""How near liars come: their share in the lists of the honest, when a fraction of the applicants collude.

They apply under as many names and realms as they like; the authority draws their places. A trial for the laboratory.
"""

from implicast.peer.authority import Authority, GrantDeclined
from implicast.peer.identity import Certificate
from implicast.peer.name import name_of
from implicast.peer.signatures import scheme
from implicast.space.digest import digest, stream
from implicast.space.vector import Vectors
from implicast.world.populations.standing import Standing

Row = dict[str, float | int | str]

HOME = b"h"
ATTEMPTS = 8
"""Places that each liar asks for; it gets those of one applicant."""


def eclipse_row(n: int, k: int, f: float, seed: int = 0, places_max: int = 1) -> Row:
    """Mean and largest share of liars among an honest peer's contacts, beside their share of the applicants."""
    vectors, secret = Vectors(2), digest("eclipse", seed)
    authority = Authority(scheme("stand-in", secret), secret, vectors, places_max)
    liars = set(stream(seed, "eclipse", n, f).sample(range(n), round(f * n)))
    certificates: list[Certificate] = []
    for applicant in range(n):
        certificates += _granted(authority, applicant, ATTEMPTS if applicant in liars else 1)
    standing: Standing[Certificate] = Standing(k, vectors, certificates)
    shares = [_share(standing, each, liars) for each in certificates if each.address not in liars]
    mean, largest = sum(shares) / len(shares), max(shares)
    return {"n": n, "k": k, "f": f, "places": len(certificates), "share_mean": mean, "share_max": largest}


def _granted(authority: Authority, applicant: int, attempts: int) -> list[Certificate]:
    """What an applicant gets when it asks so often, for one realm after the other."""
    found: list[Certificate] = []
    for attempt in range(attempts):
        try:
            found.append(authority.issue(name_of(b"", applicant), HOME + b"%d" % attempt, applicant, bytes(32), 0))
        except GrantDeclined:
            break
    return found


def _share(standing: Standing[Certificate], owner: Certificate, liars: set[int]) -> float:
    contacts = standing.table(owner.key).contacts()
    return sum(node.address in liars for node in contacts) / len(contacts)
