"""The node's files: database, durable state of the peer, large payloads, file modes. The lowest layer:
it imports no other layer.
"""
