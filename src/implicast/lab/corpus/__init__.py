"""Workloads from real corpora: bibliographies, query logs, tags.

bibtex.py, words.py    files into entries, entries into words
papers.py              bibliographies on Spark, and Listing 13: a registration from thirty papers
casts.py               query lists and key phrases into casts
taggers.py             registrations and casts from tables of users, articles and tags
"""
