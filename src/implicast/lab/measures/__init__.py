"""Measures, one file per facet: functions from DataFrame to DataFrame over journal tables with a column `run`.

Definitions follow chapter 4 of the thesis; `docs/reference/measures.md` lists them. `all.py` puts them together.
"""
