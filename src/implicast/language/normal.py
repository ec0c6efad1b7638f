"""From a tree of `&`, `|`, `!` to the normal form: the least set of conjunctions that says the
same.

Negation is pushed down to the leaves (De Morgan), conjunctions are multiplied out, contradictory
terms (`a & !a`, an empty range) and absorbed ones (`a | a&b` is `a`) vanish. Terms are not merged
any further: `a&b | a&!b` stays as it is. Every product is sized before it is built (`limits.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from implicast.language.errors import LanguageError
from implicast.language.limits import LIMITS, Limits
from implicast.language.target import Predicate, Scalar, Target, Term


class Tag(Struct, frozen=True):
    """A leaf: holds this tag."""

    name: str
    column: int


class Constraint(Struct, frozen=True):
    """A leaf: the attribute has one of the admitted values; negated, one of the refused ones."""

    admitted: tuple[Predicate, ...]
    refused: tuple[Predicate, ...] | None
    """None where the other values cannot be told: a string of any kind."""
    column: int


class Not(Struct, frozen=True):
    part: "Node"


class All(Struct, frozen=True):
    parts: tuple["Node", ...]


class Any(Struct, frozen=True):
    parts: tuple["Node", ...]


Node = Tag | Constraint | Not | All | Any


class Clause(NamedTuple):
    """A term in the making."""

    has: frozenset[str]
    lacks: frozenset[str]
    where: tuple[Predicate, ...]


CLAUSE_STEPS = 8
"""What making a clause costs, in comparisons of two clauses (the unit of `Limits.steps`)."""

_NOTHING: frozenset[str] = frozenset()
_TRUE = Clause(_NOTHING, _NOTHING, ())


def normal_form(node: Node, limits: Limits = LIMITS) -> Target:
    """The target that a tree means; `LanguageError` if it is too large, empty, or says only what is
    unwanted.
    """
    return _target(_Normaliser(limits).clauses(node, negated=False), limits)


def target_of(terms: Iterable[Term], limits: Limits = LIMITS) -> Target:
    """The normal form of a disjunction of terms that were made without a text."""
    clauses = [
        _meet(_TRUE, Clause(frozenset(term.has), frozenset(term.lacks), term.where))
        for term in terms
    ]
    return _target(
        _Normaliser(limits).union([[clause] for clause in clauses if clause is not None]), limits
    )


def _target(clauses: list[Clause], limits: Limits) -> Target:
    if not clauses:
        raise LanguageError(
            "the expression can select no peer: every term contradicts itself (like a & !a)"
        )
    return Target(tuple(sorted((_term(clause, limits) for clause in clauses), key=_order)))


def _term(clause: Clause, limits: Limits) -> Term:
    if not clause.has and not clause.where:
        unwanted = " & ".join(f"!{name}" for name in sorted(clause.lacks)[:3])
        raise LanguageError(
            f"the term {unwanted} only says what is unwanted: every term needs at least one tag or "
            "predicate"
            " that is wanted"
        )
    if _size(clause)[0] > limits.tags_per_term:
        raise _too_long(clause, limits)
    return Term(tuple(sorted(clause.has)), tuple(sorted(clause.lacks)), clause.where)


def _too_long(clause: Clause, limits: Limits) -> LanguageError:
    return LanguageError(
        f"a term has {_size(clause)[0]} tags; at most {limits.tags_per_term} are allowed (limit: "
        "tags_per_term)"
    )


def _order(term: Term) -> tuple[object, ...]:
    """A total order. Ends of ranges may be of different kinds, which Python does not compare."""
    return (
        term.has,
        term.lacks,
        tuple((each.attribute, _rank(each.low), _rank(each.high)) for each in term.where),
    )


def _rank(end: Scalar | None) -> tuple[int, int, str]:
    if end is None:
        return 0, 0, ""
    return (1, end, "") if isinstance(end, int) else (2, 0, end)


class _Normaliser:
    """One expression's way to its clauses, with the count of steps that bounds it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = 0

    def clauses(self, node: Node, negated: bool) -> list[Clause]:
        if isinstance(node, Tag):
            name = frozenset((node.name,))
            return [Clause(_NOTHING, name, ()) if negated else Clause(name, _NOTHING, ())]
        if isinstance(node, Constraint):
            return [Clause(_NOTHING, _NOTHING, (each,)) for each in _predicates(node, negated)]
        if isinstance(node, Not):
            return self.clauses(node.part, not negated)
        parts = [self.clauses(part, negated) for part in node.parts]
        return self.product(parts) if isinstance(node, All) != negated else self.union(parts)

    def union(self, parts: Sequence[list[Clause]]) -> list[Clause]:
        self.charge(sum(map(len, parts)) * CLAUSE_STEPS)
        return self.absorb([clause for part in parts for clause in part], apart=_apart(parts))

    def product(self, parts: Sequence[list[Clause]]) -> list[Clause]:
        # The smallest first: single tags become one clause at once, and an empty part ends it all.
        return reduce(self.times, sorted(parts, key=len), [_TRUE])

    def times(self, left: list[Clause], right: list[Clause]) -> list[Clause]:
        apart = len(left) * len(right) > 1 and _apart((left, right))
        if apart and len(left) * len(right) > self.limits.terms:
            raise self.too_many(f"more than {self.limits.terms} terms", "terms")
        self.charge(len(left) * len(right) * CLAUSE_STEPS)
        both = (_meet(one, other) for one in left for other in right)
        return self.absorb([self.checked(clause) for clause in both if clause is not None], apart)

    def checked(self, clause: Clause) -> Clause:
        # Some slack, as long clauses may yet be absorbed; none at all would let 3,400 tags take 300
        # ms.
        if len(clause.has) + len(clause.lacks) > 4 * self.limits.tags_per_term:
            raise _too_long(clause, self.limits)
        return clause

    def absorb(self, clauses: list[Clause], apart: bool) -> list[Clause]:
        # Parts that share no name absorb nothing of each other: a product's size is then known
        # before it is built, and `(a1|b1)&(a2|b2)&...` is refused in 5 ms instead of 27.
        kept = clauses if apart or len(clauses) < 2 else absorbed(clauses, self.charge)
        if len(kept) > self.limits.terms:
            raise self.too_many(f"more than {self.limits.terms} terms", "terms")
        return kept

    def charge(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.limits.steps:
            raise self.too_many(f"more than {self.limits.steps} steps to multiply it out", "steps")

    def too_many(self, what: str, limit: str) -> LanguageError:
        return LanguageError(
            f"the expression is too complicated: {what} (limit: {limit}); cast to its parts one by "
            "one"
        )


def _apart(parts: Sequence[list[Clause]]) -> bool:
    """True if no tag and no attribute occurs in two of the parts."""
    names = [{name for clause in part for name in _names(clause)} for part in parts]
    return sum(map(len, names)) == len(set().union(*names))


def _names(clause: Clause) -> Iterable[str]:
    return chain(clause.has, clause.lacks, ("=" + each.attribute for each in clause.where))


def _predicates(constraint: Constraint, negated: bool) -> tuple[Predicate, ...]:
    if not negated:
        return constraint.admitted
    if constraint.refused is None:
        attribute = constraint.admitted[0].attribute
        raise LanguageError(
            f"the string attribute {attribute} at column {constraint.column} cannot be negated:"
            " its other values are not known; give it choices in the schema",
            constraint.column,
        )
    return constraint.refused


def _meet(one: Clause, other: Clause) -> Clause | None:
    """Both at once; None if they contradict each other."""
    has, lacks = one.has | other.has, one.lacks | other.lacks
    if not has.isdisjoint(lacks):
        return None
    if not one.where or not other.where:
        return Clause(has, lacks, one.where or other.where)
    where = _intersection(one.where + other.where)
    return None if where is None else Clause(has, lacks, where)


def _intersection(predicates: Iterable[Predicate]) -> tuple[Predicate, ...] | None:
    """One predicate for each attribute; None if two of them leave nothing."""
    ranges: dict[str, Predicate] = {}
    for each in predicates:
        known = ranges.get(each.attribute)
        narrowed = each if known is None else known.meet(each)
        if narrowed is None:
            return None
        ranges[each.attribute] = narrowed
    return tuple(ranges[attribute] for attribute in sorted(ranges))


def absorbed(clauses: Iterable[Clause], charge: Callable[[int], None]) -> list[Clause]:
    """Without repeated clauses and those that imply another one; the shortest and widest come
    first.

    A clause can only imply another if it holds the other's rarest literal, so that kept clauses are
    looked up by it: 990 pairs of 45 tags take 5 ms, where comparing all with all takes 51.
    """
    distinct = sorted(dict.fromkeys(clauses), key=_size)
    literals = {clause: _literals(clause) for clause in distinct}
    frequency = Counter(literal for clause in distinct for literal in literals[clause])
    kept: list[Clause] = []
    by_literal: dict[str, list[Clause]] = {}
    for clause in distinct:
        rivals = [rival for literal in literals[clause] for rival in by_literal.get(literal, ())]
        charge(len(rivals))
        if any(_implies(clause, rival) for rival in rivals):
            continue
        kept.append(clause)
        rarest = min(literals[clause], key=lambda literal: (frequency[literal], literal))
        by_literal.setdefault(rarest, []).append(clause)
    return kept


def _size(clause: Clause) -> tuple[int, int]:
    """Least for the most general: what implies another clause never comes before it."""
    return len(clause.has) + len(clause.lacks) + len(clause.where), -sum(
        each.width() for each in clause.where
    )


def _literals(clause: Clause) -> list[str]:
    return [
        *sorted(clause.has),
        *("!" + name for name in sorted(clause.lacks)),
        *("=" + each.attribute for each in clause.where),
    ]


def _implies(clause: Clause, rival: Clause) -> bool:
    """Whatever the clause selects, the rival selects too."""
    if not (rival.has <= clause.has and rival.lacks <= clause.lacks):
        return False
    return all(any(mine.within(each) for mine in clause.where) for each in rival.where)
