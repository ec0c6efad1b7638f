"""Connections to other nodes: frames, TLS, the connection pool, services between nodes, clocks.
Above `storage`; below `identity`.
"""
