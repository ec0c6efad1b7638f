"""The doubly linked ring under Chord and Chord#."""

from implicast.overlay.links.above import Above
from implicast.overlay.links.links import Links
from implicast.overlay.links.messages import LINK_KINDS
from implicast.overlay.links.refs import Place, Ref
from implicast.overlay.links.settings import LinkSettings

__all__ = ["LINK_KINDS", "Above", "LinkSettings", "Links", "Place", "Ref"]
