"""Input as it comes from outside: each bad piece becomes a row or a sentence, and the rest is used."""

import gzip
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from random_journal import random_journal

from implicast.cli import main
from implicast.lab.corpus.bibtex import Paper
from implicast.lab.corpus.papers import papers_of
from implicast.lab.error_messages import plainly, sentence
from implicast.lab.errors import NothingUsable, SparkFailed
from implicast.lab.journals import found, objection
from implicast.lab.measure import measure
from implicast.lab.storage import Location


def cut(path: Path, share: float = 0.5) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def scribble(path: Path) -> None:
    """Noise in the middle of the data; the footer stays whole."""
    content = bytearray(path.read_bytes())
    content[8 : len(content) // 2] = bytes(len(content) // 2 - 8)
    path.write_bytes(content)


def rewrite(path: Path, change) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def another_type(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.column_names.index("peer"), "peer", table["peer"].cast(pa.string())
    )


def unknown_peers(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.column_names.index("sender"), "sender", pa.array([-7] * len(table), pa.int32())
    )


JOURNALS = {
    "cut": (lambda at: cut(at / "sends.parquet"), "sends.parquet cannot be read"),
    "scribbled": (lambda at: scribble(at / "sends.parquet"), "sends.parquet cannot be read"),
    "empty file": (
        lambda at: (at / "casts.parquet").write_bytes(b""),
        "casts.parquet cannot be read",
    ),
    "text": (
        lambda at: (at / "peers.parquet").write_text("peer,role\n1,peer\n"),
        "peers.parquet cannot be read",
    ),
    "missing": (lambda at: (at / "notices.parquet").unlink(), "it has no notices.parquet"),
    "column gone": (
        lambda at: rewrite(at / "casts.parquet", lambda table: table.drop(["target"])),
        "lacks the column 'target'",
    ),
    "other type": (
        lambda at: rewrite(at / "peers.parquet", another_type),
        "is string, where int32 is due",
    ),
    "not a target": (
        lambda at: rewrite(
            at / "casts.parquet", lambda t: t.set_column(3, "target", pa.array(["& |"] * len(t)))
        ),
        "it does not hang together",
    ),
    "nobody's peers": (
        lambda at: rewrite(at / "sends.parquet", unknown_peers),
        "it does not hang together",
    ),
    "a folder": (
        lambda at: ((at / "links.parquet").unlink(), (at / "links.parquet").mkdir()),
        "it has no links.parquet",
    ),
}


@pytest.mark.spark
def test_of_many_journals_the_bad_ones_become_rows_and_the_others_are_measured(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, (hurt, _) in enumerate(JOURNALS.values()):
        hurt(random_journal(tmp_path / "all" / f"run=bad{number}", 3).directory)
    random_journal(tmp_path / "all" / "run=good", 3)

    measured = measure(spark, found(Location.of(tmp_path / "all")), Location.of(tmp_path / "out"))

    assert measured["measures"]["run"].to_pylist() == ["good"]
    reasons = {
        row["run"]: row["reason"]
        for row in pq.read_table(tmp_path / "out" / "rejected").to_pylist()
    }
    for number, (name, (_, says)) in enumerate(JOURNALS.items()):
        assert says in reasons[f"bad{number}"], name
    shutil.rmtree(tmp_path / "all" / "run=good")
    with pytest.raises(
        NothingUsable,
        match=f"none of {len(JOURNALS)} journals can be measured; bad0: sends.parquet",
    ):
        measure(spark, found(Location.of(tmp_path / "all")))


def test_a_whole_journal_is_not_objected_to(tmp_path: Path) -> None:
    random_journal(tmp_path / "run=good", 4)

    assert [objection(each) for each in found(Location.of(tmp_path))] == [None]


ENTRY = b"@misc{a, title = {Planning with many words}}\n"
FILES = {
    "cut gzip": (gzip.compress(ENTRY * 999)[:60], "gzip cut off"),
    "damaged gzip": (gzip.compress(ENTRY * 999)[:30] + b"\x00" * 40, "gzip"),
    "noise": (bytes(range(1, 256)) * 40, "no entry in the whole file"),
    "zeros": (bytes(5000), "not a text"),
    "nothing": (b"", "no entry in the whole file"),
    "a web page": (b"<html><body>not found</body></html>", "no entry in the whole file"),
    "an open brace": (b"@misc{a, title = {never closed\n" * 3, "cannot be read"),
}


def rows_of(path: Path, content: bytes) -> list[Paper]:
    path.write_bytes(content)
    return [each for some in papers_of(Location.of(path)) for each in some]


@pytest.mark.parametrize("name", FILES)
def test_a_bad_bibliography_becomes_a_row(name: str, tmp_path: Path) -> None:
    content, says = FILES[name]

    rows = rows_of(tmp_path / "bad.bib", content)

    assert any(says in (row.reason or "") for row in rows), [row.reason for row in rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_file_in_another_encoding_is_read(encoding: str, tmp_path: Path) -> None:
    content = "@misc{a, title = {Müller im Café}}\n".encode(encoding)

    rows = rows_of(tmp_path / "one.bib", content)

    assert [row.words for row in rows] == [("müller", "im", "café")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "peers", "--out", "file"], "is not a laboratory folder"),
        (["run", "peers", "--out", "nowhere://x"], "cannot be opened"),
        (["run", "broken.toml"], "not TOML"),
        (["run", "binary.toml"], "not"),
        (["measure", "file"], "is not a journal"),
        (["compare", "empty", "empty"], "is not a laboratory folder"),
        (["report", "old"], "is not a laboratory folder"),
        (["run", "peers", "--out", "newer"], "has layout 99"),
        (["run", "peers", "--out", "garbled"], "lab.json"),
    ],
)
def test_a_bad_call_gets_a_sentence(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "implicast.lab.options.session", lambda *_, **__: pytest.fail("a session was started")
    )
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken.toml").write_text("title =")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    for name, marker in (("newer", '{"layout": 99}'), ("garbled", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lab.json").write_text(marker)

    result = CliRunner().invoke(main, ["lab", *words])

    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'java.io.IOException: No FileSystem for scheme "s3a"\n\tat org.apache',
            "no file system for s3a://",
        ),
        ("An error occurred: java.lang.OutOfMemoryError: Java heap space", "ran out of memory"),
        (
            "ModuleNotFoundError: No module named 'implicast'",
            "workers lack the Python module implicast",
        ),
        (
            "org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat a.b.c",
            "Could not parse Master URL",
        ),
    ],
)
def test_what_spark_says_becomes_a_sentence_and_the_trace_a_file(said: str, told: str) -> None:
    assert told in sentence(RuntimeError(said))
    with pytest.raises(SparkFailed, match="the trace is in") as failed, plainly():
        raise RuntimeError(said)
    assert "\n" not in str(failed.value)
    path = Path(str(failed.value).rpartition("the trace is in ")[2].rstrip(")"))
    assert said.splitlines()[0] in path.read_text()
    path.unlink()
