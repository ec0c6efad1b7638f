"""Errors of a node that several layers raise."""

from implicast.peer.errors import LocalError


class NodeError(LocalError):
    """The node cannot do what was asked; the text says why."""


class IdentityError(LocalError):
    """A key or certificate cannot be used; the text says why."""
