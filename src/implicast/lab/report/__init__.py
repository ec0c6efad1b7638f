"""The report of an experiment: one HTML file that opens offline, and its figures as SVG files.

It reads the tables of a laboratory directory and nothing else: no Spark, no network. This is the
only place where results leave their tables.
"""

from implicast.lab.report.page import write

__all__ = ["write"]
