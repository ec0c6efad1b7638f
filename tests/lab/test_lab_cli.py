"""The laboratory's commands: what they refuse, before any session is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.lab import session as sessions
from implicast.lab.cli import _all, _closing
from implicast.lab.errors import NoSpark
from implicast.lab.experiment import experiments
from implicast.lab.session import require_java


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nothing"], "there is no experiment 'nothing'; choose one of"),
        (["run", "peers", "--scale", "huge"], "there is no scale 'huge'"),
        (["run", "missing.toml"], "there is no experiment file missing.toml"),
        (["run", "peers", "--conf", "nonsense"], "--conf nonsense: expected NAME=VALUE"),
        (["run", "peers", "--out", " "], "--out is empty"),
        (["run", "peers", "--out", "/proc/nowhere"], "nothing can be written in /proc/nowhere"),
        (["measure", "nowhere"], "is not a journal and holds none"),
        (["report", "nowhere"], "is not a laboratory folder"),
        (["groups", "nowhere"], "is not a workload"),
        (["compact", "nowhere", "--keep", "2"], "is not a lake"),
        (["stream", "lake", "--out", "x", "--from-now", "--conf", "a"], "--conf a: expected"),
        (["workload", "zipf", "--out", "w", "--with", "skew=9"], "skew=9 is out of range"),
        (["workload", "moon", "--out", "w"], "there is no workload 'moon'"),
        (["workload", "corpus", "--out", "w"], "needs --bibliographies and --queries"),
        (
            ["workload", "corpus", "--out", "w", "--bibliographies", ".", "--queries", "q"],
            "no BibTeX file",
        ),
        (["workload", "tags", "--out", "w"], "needs --tagged"),
    ],
)
def test_a_wrong_call_gets_one_sentence_and_nothing_is_started(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "implicast.lab.options.session", lambda *_, **__: pytest.fail("a session was started")
    )

    result = CliRunner().invoke(main, ["lab", *words])

    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "w").exists()


def test_the_experiments_are_listed_with_what_they_are_about() -> None:
    result = CliRunner().invoke(main, ["lab", "list"])

    assert result.exit_code == 0
    assert "Extreme casts" in result.output
    assert "thesis, section 8.4.1" in result.output


def test_a_missing_java_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSpark, match="needs Java 17 or later and none was found: install one"):
        require_java()

    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(NoSpark, match="is version 8"):
        require_java()


def test_a_case_study_without_its_data_says_how_to_name_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IMPLICAST_DATA", raising=False)

    result = CliRunner().invoke(main, ["lab", "run", "case-study"])

    assert result.exit_code == 2
    assert "--data or IMPLICAST_DATA" in result.output
    assert not list(tmp_path.iterdir())


def test_settings_of_the_session_are_quiet_local_and_in_utc() -> None:
    settings = sessions._settings("local[*]", brief=False)

    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.jars.packages" not in settings


def test_all_leaves_out_what_has_no_data_or_maps_here_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IMPLICAST_DATA", raising=False)

    chosen = {each.name for each in _all(None)}

    assert {*experiments()} - chosen == {"case-study", "case-study-casts", "corpus", "maps"}
    assert "left out, for want of maps in this folder: maps" in capsys.readouterr().err


def test_the_last_line_of_all_says_what_went_well_what_did_not_and_what_was_left_out() -> None:
    there = sorted(experiments())

    assert _closing(there, []) == f"{len(there)} of {len(there)} experiments went well"
    assert _closing(there[1:], [there[2]]) == (
        f"{len(there) - 2} of {len(there)} experiments went well; not well: {there[2]}; left out: {there[0]}"
    )


def test_an_experiment_on_maps_that_are_not_here_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = CliRunner().invoke(main, ["lab", "run", "maps", "--out", "x"])

    assert refused.exit_code == 2
    assert (
        "maps needs the map topology-zoo/Colt.graphml; run it in a folder that holds it"
        in refused.output
    )
    assert not (tmp_path / "x").exists()
