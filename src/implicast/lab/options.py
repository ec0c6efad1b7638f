"""What the commands of the laboratory share: the options of Spark, a session for one command, how
one speaks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from implicast.lab.error_messages import plainly
from implicast.lab.errors import LabError
from implicast.lab.session import session

DIRECTORY = click.Path(path_type=Path)


def on_spark(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that starts a session."""
    command = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
    )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="spark://host:7077, yarn, k8s://... or sc://host:15002. [spark-submit's, else local[*]]",
    )(command)


@contextmanager
def started(
    master: str | None, conf: tuple[str, ...], brief: bool = False
) -> Iterator[SparkSession]:
    """A session for one command; what Spark complains of becomes a sentence."""
    settings = dict(pair("--conf", word) for word in conf)
    lent = SparkSession.getActiveSession() is not None
    spark = session(master, settings, brief=brief)
    try:
        with plainly():
            yield spark
    finally:
        if not lent:
            with plainly():
                spark.stop()


def pair(option: str, word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise LabError(f"{option} {word}: expected NAME=VALUE")
    return name.strip(), value.strip()


def say(text: str) -> None:
    click.echo(text, err=True)
