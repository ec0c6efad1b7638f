"""Lists on a hashed ring, kept by the node of each key for all: with receipts they outlive their keepers.

Read in this order: `rows.py` (what is kept), `share.py` (where a node stands), `keeper.py` (keeping), `layings.py` (the
own entries), `questions.py` (casts), `copies.py`, `tenure.py`, `rumours.py` (when all copies died), `member.py`.
"""

from implicast.casting.keeping.design import ring_design
from implicast.casting.keeping.member import RingMember
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.questions import Fetch

__all__ = ["Fetch", "Piece", "RingMember", "ring_design"]
