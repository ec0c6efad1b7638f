"""A target in plain words."""

from implicast.language.attributes import Schema
from implicast.language.render import render
from implicast.language.target import Target, Term


def in_words(target: Target, schema: Schema | None = None) -> str:
    """What a target asks for, as one says it: `jazz and football; or samba, but not chess`."""
    return "; or ".join(_term(term, schema) for term in target.terms)


def _term(term: Term, schema: Schema | None) -> str:
    wanted = [*term.has, *(render(Target((Term(where=(each,)),)), schema) for each in term.where)]
    said = " and ".join(wanted)
    return f"{said}, but not {' or '.join(term.lacks)}" if term.lacks else said
