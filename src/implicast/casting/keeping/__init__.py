"""Lists on a hashed ring that outlive their keepers: copies at right neighbours, compared, promoted, returned.

Shared by the designs on Chord when they live (`alive=true`). Read in this order: `rows.py` (what is kept), `keeper.py`
(keeping), `laying.py` (one's own entries), `asking.py` (casts), `lacking.py` (when all copies died), `member.py`.
"""

from implicast.casting.keeping.asking import Question
from implicast.casting.keeping.looking import living_trouble
from implicast.casting.keeping.member import (
    ALIVE_KINDS,
    RING_ALIVE,
    RING_PATIENCE,
    RING_QUICK,
    RING_SURVIVES,
    LivingMember,
    stand_up_alive,
)
from implicast.casting.keeping.pieces import Piece

__all__ = [
    "ALIVE_KINDS", "RING_ALIVE", "RING_PATIENCE", "RING_QUICK", "RING_SURVIVES", "LivingMember", "Piece", "Question",
    "living_trouble", "stand_up_alive",
]  # fmt: skip
