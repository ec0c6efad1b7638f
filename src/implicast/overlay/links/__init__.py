"""The doubly linked ring under Chord and Chord#."""

from implicast.overlay.links.links import Links
from implicast.overlay.links.listener import RingListener
from implicast.overlay.links.messages import LINK_KINDS
from implicast.overlay.links.refs import Place, Ref
from implicast.overlay.links.settings import LinkSettings

__all__ = ["LINK_KINDS", "LinkSettings", "Links", "Place", "Ref", "RingListener"]
