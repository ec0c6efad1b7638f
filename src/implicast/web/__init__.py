"""The research tool: a page on this machine, served by the node itself, for reading, writing and
answering casts.

    letter.py         content of a cast from the page
    letters.py        folders, threads, search
    drafts.py         drafts and letters that are being sent
    mailbox.py        the page's SQLite file, beside the node's
    thesaurus.py      tag rules
    blocks.py         blocked publishers and targets
    reading.py        tags from a bibliography
    desk.py           calls of the page to the node
    passing.py        casts that the node forwards
    neighbourhood.py  the drawing of the network
    guard.py          access control
    app.py            the pages
"""
