"""`python -m implicast` is the command `implicast`."""

from implicast.cli import main

main()
