"""Texts read into targets and descriptions.

    target      := conjunction { "|" conjunction }
    conjunction := negation { "&" negation }              `&` binds tighter than `|`
    negation    := "!" negation | "(" target ")" | predicate | TAG
    predicate   := ATTRIBUTE operator VALUE | VALUE operator ATTRIBUTE [ operator VALUE ]
                 | ATTRIBUTE "in" [VALUE] ".." [VALUE]
    operator    := "=" | "!=" | "<" | "<=" | ">" | ">="
    description := { (TAG | ATTRIBUTE "=" VALUE) [","] }

Whatever is wrong is a `LanguageError` with its column and a hint. Bounds are in `limits.py`.
"""

from collections.abc import Mapping

from implicast.language.attributes import Exact, Schema
from implicast.language.errors import LanguageError
from implicast.language.lexer import END, QUOTED, SIGN, STEP, WORD, Token, tokens
from implicast.language.limits import LIMITS, Limits
from implicast.language.normal import All, Any, Node, Not, Tag, normal_form
from implicast.language.predicates import MIRRORED, OPERATORS, PredicateReader
from implicast.language.tags import fold, tag
from implicast.language.target import Description, Target, Term, Value

_WORDS_FOR_SIGNS = {"and": "&", "or": "|", "not": "!"}


def parse(text: str, schema: Schema | None = None, limits: Limits = LIMITS) -> Target:
    """The target that a text means, in normal form."""
    return normal_form(_Parser(tokens(text, limits), schema, limits).whole(), limits)


def all_of(*tags: str) -> Target:
    """Peers that hold all of these tags: `parse("a & b")` without a text."""
    if not tags:
        raise LanguageError("a target needs at least one tag")
    return Target((Term(has=tuple(sorted({tag(each) for each in tags}))),))


def describe(
    *tags: str, values: Mapping[str, Exact] | None = None, schema: Schema | None = None
) -> Description:
    """A description of these tags and of these values of the schema's attributes."""
    if values and schema is None:
        raise LanguageError(f"the attribute {next(iter(values))} needs a schema: pass one")
    given = (
        []
        if schema is None
        else [schema.value(name, value) for name, value in (values or {}).items()]
    )
    return _description([tag(each) for each in tags], given, LIMITS)


def description(text: str, schema: Schema | None = None, limits: Limits = LIMITS) -> Description:
    """The description that a text lists: tags and `name = value`, separated by commas or spaces."""
    reader = PredicateReader(schema)
    found = tokens(text, limits)
    tags: list[str] = []
    values: list[Value] = []
    at = 0
    while found[at].kind != END:
        name = found[at]
        if name.kind not in (WORD, QUOTED):
            raise _unexpected(
                name, "expected a tag or name = value; a description is a list, not an expression"
            )
        if _is(found[at + 1], "="):
            values.append(reader.value(name, _value(found[at + 2])))
            at += 3
        else:
            tags.append(fold(name.text))
            at += 1
        at += _is(found[at], ",")
    return _description(tags, values, limits)


def _description(tags: list[str], values: list[Value], limits: Limits) -> Description:
    by_name: dict[str, Value] = {}
    for each in values:
        if by_name.setdefault(each.attribute, each) != each:
            raise LanguageError(
                f"the attribute {each.attribute} is given two values; a description has one of each"
            )
    distinct = sorted(set(tags))
    if len(distinct) > limits.tags_per_description:
        raise LanguageError(
            f"the description has {len(distinct)} tags; at most {limits.tags_per_description} are "
            "allowed"
            " (limit: tags_per_description)"
        )
    return Description(tuple(distinct), tuple(by_name[name] for name in sorted(by_name)))


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, found: list[Token], schema: Schema | None, limits: Limits) -> None:
        self.tokens = found
        self.at = 0
        self.depth = 0
        self.limits = limits
        self.reader = PredicateReader(schema)

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def whole(self) -> Node:
        if self.token.kind == END:
            raise LanguageError(
                "the expression is empty: give at least one tag, like jazz & (samba | tango)", 1
            )
        node = self.target()
        if self.token.kind != END:
            raise _unexpected(self.token, _after_operand(self.token, self.tokens[self.at - 1]))
        return node

    def target(self) -> Node:
        parts = [self.conjunction()]
        while _is(self.token, "|"):
            self.at += 1
            parts.append(self.conjunction())
        return Any(tuple(parts)) if len(parts) > 1 else parts[0]

    def conjunction(self) -> Node:
        parts = [self.negation()]
        while _is(self.token, "&"):
            self.at += 1
            parts.append(self.negation())
        return All(tuple(parts)) if len(parts) > 1 else parts[0]

    def negation(self) -> Node:
        token = self.take()
        if _is(token, "!"):
            self.deeper(token)
            node: Node = Not(self.negation())
        elif _is(token, "("):
            self.deeper(token)
            node = self.target()
            self.close(token)
        elif token.kind in (WORD, QUOTED, STEP):
            return self.leaf(token)
        else:
            raise _unexpected(token, _instead_of_tag(token, self.tokens[max(self.at - 2, 0)]))
        self.depth -= 1
        return node

    def deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > self.limits.nesting:
            raise LanguageError(
                f"parentheses and negations are nested more than {self.limits.nesting} deep at "
                f"column {token.column}"
                " (limit: nesting)",
                token.column,
            )

    def close(self, opening: Token) -> None:
        token = self.take()
        if token.kind == END:
            raise LanguageError(
                f"the parenthesis opened at column {opening.column} is never closed: add a )",
                opening.column,
            )
        if not _is(token, ")"):
            raise _unexpected(token, _after_operand(token, self.tokens[self.at - 2]))

    def leaf(self, first: Token) -> Node:
        if self.token.kind == SIGN and self.token.text in OPERATORS:
            return self.comparison(first)
        if first.kind == STEP:
            raise _unexpected(
                first, "a grid step is a value: compare an attribute with it, like price <= @870"
            )
        if self.token.kind == WORD and fold(self.token.text) == "in" and self.range_follows():
            return self.range(first)
        return Tag(fold(first.text), first.column)

    def range_follows(self) -> bool:
        """After `in`: so that in `jazz in town` the error is about `in` and not about a range."""
        following = self.tokens[self.at + 1 : self.at + 3]
        return any(_is(token, "..") for token in following)

    def range(self, name: Token) -> Node:
        self.at += 1
        low = None if _is(self.token, "..") else _value(self.take())
        self.at += 1
        high = self.take() if self.token.kind in (WORD, QUOTED, STEP) else None
        return self.reader.between(name, low, high)

    def comparison(self, first: Token) -> Node:
        operator = self.take().text
        second = _value(self.take())
        if self.token.kind == SIGN and self.token.text in OPERATORS:
            other = self.take().text
            third = _value(self.take())
            return All(
                (
                    self.reader.compare(second, MIRRORED[operator], first),
                    self.reader.compare(second, other, third),
                )
            )
        mirrored = first.kind == STEP or (
            self.reader.names_an_attribute(second) and not self.reader.names_an_attribute(first)
        )
        if mirrored:
            return self.reader.compare(second, MIRRORED[operator], first)
        return self.reader.compare(first, operator, second)


def _is(token: Token, sign: str) -> bool:
    return token.kind == SIGN and token.text == sign


def _value(token: Token) -> Token:
    if token.kind in (WORD, QUOTED, STEP):
        return token
    raise _unexpected(token, "expected a value, like price < 8.70 or exchange = NYSE")


def _unexpected(token: Token, hint: str) -> LanguageError:
    return LanguageError(
        f"unexpected {token.shown()} at column {token.column}: {hint}", token.column
    )


def _instead_of_tag(token: Token, previous: Token) -> str:
    if (
        token.text in ("&", "|")
        and _is(previous, token.text)
        and previous.column == token.column - 1
    ):
        return f"a single {token.text} joins two tags"
    return "expected a tag"


def _after_operand(token: Token, previous: Token) -> str:
    if token.kind in (WORD, QUOTED) and fold(token.text) in _WORDS_FOR_SIGNS:
        return f"write {_WORDS_FOR_SIGNS[fold(token.text)]} for {token.text}"
    if previous.kind == WORD and fold(previous.text) in _WORDS_FOR_SIGNS:
        return f"write {_WORDS_FOR_SIGNS[fold(previous.text)]} for {previous.text}"
    if _is(token, ")"):
        return "no parenthesis is open"
    return "join tags with & or |, and quote a tag that holds spaces"
