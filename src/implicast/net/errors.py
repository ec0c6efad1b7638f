"""Errors of a node."""

from implicast.peer.errors import LocalError


class NodeError(LocalError):
    """The node cannot do what was asked; the text says why."""
