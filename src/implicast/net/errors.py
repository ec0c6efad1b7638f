"""What a node says when it cannot do what it was asked."""

from implicast.peer.errors import LocalError


class NodeError(LocalError):
    """What was asked of the node cannot be done; the text says why."""
