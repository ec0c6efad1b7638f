"""The command line and the control socket. The highest layer, above `node.py` and `client.py`."""
