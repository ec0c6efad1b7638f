"""The same peers over real sockets: `node.py` is the API, `driver.py` the host of one peer, `carrier.py` its links."""

from os import environ

environ.setdefault("IMPLICAST_NUMBA", "0")
