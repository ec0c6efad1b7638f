"""Runs the peers of a design as processes on a network.

`node.py` is the API, `driver.py` hosts one peer, `connection_pool.py` holds the node's connections.
"""
