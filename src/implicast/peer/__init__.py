"""The contract between a peer and its world: start with `contract.py`."""
