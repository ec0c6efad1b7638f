"""The research tool: a page on this machine, served by the node itself, for reading, writing and
answering casts.

letter.py      what the page puts into a cast          shelf.py    the page's file beside the node's
letters.py     folders, threads, search                drafts.py   what is being written, what is on
its way thesaurus.py   tag rules                               blocks.py   what one does not want to
read reading.py     tags from a bibliography                desk.py     the page's hands on the node
passing.py     the casts that pass                     neighbourhood.py  what is drawn of the
network guard.py       who may ask                             app.py      the pages
"""
