"""The position of one node on the linked ring: its incarnation, its state and its pointers. No I/O."""

from implicast.overlay.links.refs import FIRST, Number, Ref, cut_list
from implicast.overlay.links.state import DEL, IN, INS, OUT
from implicast.peer.contract import Address


class Position:
    """State and pointers of the present incarnation."""

    __slots__ = (
        "_lefts_max",
        "_repairs",
        "address",
        "bypassed",
        "is_confirmed",
        "key",
        "left",
        "lefts",
        "lnum",
        "me",
        "right",
        "rnum",
        "state",
    )

    def __init__(self, address: Address, key: int, lefts_max: int) -> None:
        self.address, self.key, self._lefts_max = address, key, lefts_max
        self.start(0)

    def start(self, incarnation: int) -> None:
        """Start an incarnation off the ring, which knows nothing of an earlier one."""
        self.state = OUT
        self.me = Ref(self.key, self.address, incarnation)
        self.left = self.right = self.me
        self.lnum: Number = FIRST
        self.rnum: Number | None = FIRST
        """Number of the link to the right neighbour; None while the node is being inserted."""
        self.is_confirmed = True
        """Whether the right neighbour has confirmed this link."""
        self.lefts: tuple[Ref, ...] = ()
        """The nearest nodes on the left, nearest first."""
        self.bypassed = False
        """Whether other nodes have bypassed this node since it was last linked in."""
        self._repairs = 0

    def set_key(self, key: int) -> None:
        """Off the ring: choose the key of the next incarnation."""
        assert self.state == OUT, f"{self.address} is {self.state} and cannot move"
        self.key = key

    def restore(self, left: Ref, right: Ref, lefts: tuple[Ref, ...]) -> None:
        """A member of a converged ring."""
        self.state = IN
        self.left, self.right, self.lefts = left, right, lefts
        self.lnum = self.rnum = FIRST

    # --- the state

    def begin_insertion(self, left: Ref, right: Ref) -> None:
        self.state, self.left, self.right, self.rnum = INS, left, right, None

    def set_state(self, state: str) -> None:
        self.state = state

    # --- the pointers

    def set_right(self, right: Ref, num: Number, confirmed: bool) -> None:
        self.right, self.rnum, self.is_confirmed = right, num, confirmed

    def set_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.left, self.lnum, self.lefts = left, num, lefts

    def set_lefts(self, lefts: tuple[Ref, ...]) -> bool:
        """The same left neighbour, with a new list of the nodes on its left; whether it differs."""
        changed, self.lefts = lefts != self.lefts, lefts
        return changed

    def confirm(self, num: Number | None) -> None:
        """The right neighbour holds the link; None: under the number known here."""
        self.is_confirmed = True
        if num is not None:
            self.rnum = num

    def end_bypass(self) -> bool:
        """The node is linked in again; whether it had been bypassed."""
        was_bypassed, self.bypassed = self.bypassed, False
        return was_bypassed

    def next_repair_number(self, bypassed: bool) -> Number:
        """A number that supersedes all earlier ones. `bypassed`: another node took this place."""
        self.bypassed = self.bypassed or bypassed
        self._repairs = max(self._repairs, self.lnum[0]) + 1
        return self._repairs, 0

    # --- reading

    @property
    def is_on_ring(self) -> bool:
        """Whether the node is a member, also while it leaves."""
        return self.state in (IN, DEL)

    @property
    def is_alone(self) -> bool:
        return self.right == self.me

    def is_former(self, incarnation: Ref) -> bool:
        """Whether the addressed incarnation is not, or no longer, on the ring."""
        return incarnation != self.me or self.state == OUT

    def known_lefts(self) -> dict[Ref, None]:
        """The left neighbour, then the nodes on its left."""
        return dict.fromkeys((self.left, *self.lefts))

    def cut_lefts(self, refs: list[Ref], owner: Ref) -> tuple[Ref, ...]:
        """The left list of `owner` from these nodes."""
        return cut_list(refs, owner, self._lefts_max)

    def left_list_for(self, owner: Ref) -> tuple[Ref, ...]:
        """This node and the nodes on its left, as the left list of `owner`."""
        return self.cut_lefts([self.me, *self.lefts], owner)
