"""Who there is, from a file: `name,description` as CSV, or TOML with a table of peers.

name,description                          schema = "price: 0..1000 by 0.01"
ann,"samba, football"                     [peers]
bob,"jazz, football"                      ann = "samba, price = 8.45"
"""

import csv
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from implicast.language.attributes import Schema
from implicast.language.errors import LanguageError, LocalError
from implicast.language.parse import description
from implicast.language.target import Description

PEOPLE_MAX = 4_096
"""More are for `simulate`, which assembles its networks instead of letting one peer join after the
other.
"""


class PeopleError(LocalError):
    """A file of peers that cannot be read; the text says where."""


@dataclass(frozen=True, slots=True)
class Person:
    """One peer to be: its name, and what it says of itself as it is written and as it is read."""

    name: str
    text: str
    description: Description


@dataclass(frozen=True, slots=True)
class People:
    """All of a file."""

    persons: tuple[Person, ...]
    schema: Schema | None = None


def read_people(path: Path, schema: Schema | None = None) -> People:
    """The peers of a file; `PeopleError` names the line or the entry that is wrong."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PeopleError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PeopleError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    if path.suffix == ".toml":
        return _from_toml(path, text, schema)
    return People(_persons(path, _csv_rows(path, text), schema), schema)


def _csv_rows(path: Path, text: str) -> Iterable[tuple[str, str, str]]:
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    columns = [each.strip().lower() for each in reader.fieldnames or ()]
    lacking = [each for each in ("name", "description") if each not in columns]
    if lacking:
        raise PeopleError(
            f"{path}: the first line names no column {lacking[0]!r}; it should be: name,description"
        )
    reader.fieldnames = columns
    for row in reader:
        where = f"line {reader.line_num}"
        if row.get("description") is None or not (row.get("name") or "").strip():
            raise PeopleError(
                f"{path}: {where}: expected a name and a description; put a description with commas in "
                'double quotes: ann,"samba, football"'
            )
        if None in row:
            raise PeopleError(
                f"{path}: {where}: more values than columns; put a description with commas in double "
                'quotes: ann,"samba, football"'
            )
        yield where, row["name"].strip(), row["description"].strip()


def _from_toml(path: Path, text: str, schema: Schema | None) -> People:
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PeopleError(f"{path}: {error}") from None
    peers = read.get("peers")
    if not isinstance(peers, dict) or not all(isinstance(said, str) for said in peers.values()):
        raise PeopleError(
            f'{path}: expected a table of peers: [peers] and lines like ann = "samba, football"'
        )
    if schema is None and "schema" in read:
        schema = Schema.read(str(read["schema"]))
    return People(
        _persons(path, ((f"peer {name}", name, said) for name, said in peers.items()), schema),
        schema,
    )


def _persons(
    path: Path, rows: Iterable[tuple[str, str, str]], schema: Schema | None
) -> tuple[Person, ...]:
    found: dict[str, Person] = {}
    for where, name, said in rows:
        if name in found:
            raise PeopleError(f"{path}: {where}: the name {name} stands there twice")
        try:
            found[name] = Person(name, said, description(said, schema))
        except LanguageError as error:
            raise PeopleError(f"{path}: {where}: {error}") from None
    if not found:
        raise PeopleError(f"{path} names no peer")
    if len(found) > PEOPLE_MAX:
        raise PeopleError(
            f"{path} names {len(found)} peers; at most {PEOPLE_MAX} are taken: use `implicast simulate`"
        )
    return tuple(found.values())
