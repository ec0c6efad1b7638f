"""What `spark-submit` is given: the commands `implicast lab ...` on the session that the submitter
asked for.

    spark-submit --master spark://head:7077 $(implicast lab entry) run peers --out s3://bucket/peers

It stands alone in its folder: Spark puts the folder of a script on the path of modules, and there
nothing of ours may shadow a library.
"""

import sys


def main(words: list[str]) -> None:
    """The command line of the laboratory, without its first word."""
    try:
        from implicast.cli import main as implicast
    except ImportError as missing:
        sys.exit(
            f"implicast: not installed for {sys.executable} ({missing}); set PYSPARK_PYTHON to a Python that has it"
        )
    implicast(["lab", *words], prog_name="implicast")


if __name__ == "__main__":
    main(sys.argv[1:])
