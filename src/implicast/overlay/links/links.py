"""A node of the doubly linked ring (DDLL): its neighbours, its incarnations, and their maintenance.

Theory of operation
-------------------
State. A node has a right pointer with a number, the newest left pointer with its number, and a list
of the nearest nodes on its left (`position.py`). A number is (repair, step): a take-over adds a
step, and a repair supersedes every earlier number. An incarnation is named in every message: what is
meant for an earlier one has no effect on the present one.

Invariants. Without crashes and false suspicions:
- the right pointers of the members form one cycle in key order at every moment, so every key has
  exactly one owner while peers join and leave;
- an operation takes effect at most once, and never after its requester has accepted a refusal;
- left pointers and lists are hints: they may be old, and they become exact by later news.
Messages may be lost, delayed, duplicated and reordered. There are no locks: a conflict means that
another requester succeeded. With crashes the ring may be open until the right neighbour of the
crashed nodes has repaired it; in a partition it becomes several rings, which merge afterwards.

| state | event | action | next |
|---|---|---|---|
| OUT | join | FindPlace through introducers, repeated | OUT |
| OUT | PlaceFound | SetR INSERT to the left node | INS |
| OUT | no member is found, other nodes wait too, this one is the least | ring of one | IN |
| INS | SetRAck, or proof by the right neighbour | both pointers are set; Confirm | IN |
| INS | SetRNak | with the true neighbours: try these; else look up again | OUT |
| INS | the left node is lost | a new incarnation looks its place up | OUT |
| IN | StabiliseRound | LinkStateRequest to the left: the search of `stabilisation.py` | IN |
| IN | the search finds a gap | SetR INSERT or REPLACE with a repair number | IN |
| IN | SetR that names the present pointer and number | right pointer changes; SetL, SetRAck | IN |
| IN | any other SetR | SetRNak | IN |
| IN | leave, neighbours known | SetR DELETE to the left node | DEL |
| IN | leave, alone or for too long | none | OUT |
| DEL | SetRAck | the incarnation only repeats its answers | OUT |
| DEL | SetRNak, or the left node is lost | try again later | IN |

Who sends what. The requester sends SetR and repeats it until SetRAck or SetRNak. The holder sends
SetL to the node whose left pointer changes; that node answers SetLAck to its new left neighbour,
which repeats SetL until then. Each node checks its left neighbour once a period (LinkStateRequest,
LinkState). A node that met another ring looks its own place up there (FindPlace, PlaceFound).

Layers. Each part is handed those above it in this list and reports to later ones by callbacks:

    position       state and pointers         introducers    where to join; founding a ring
    liveness       departed, suspected        lookup         place lookups, merging of rings
    requests       own SetR under way         stabilisation  search left, repair
    pointers       answers SetR and SetL      membership     joining, leaving

In a world without crashes liveness has `NoDetector` and the settings name no merging, founding or
detours: requests repeat until they are answered. `FIDELITY.md` lists the differences from DDLL.
"""

from implicast.overlay.links.attempts import after_jittered
from implicast.overlay.links.introducers import Introducers
from implicast.overlay.links.listener import LayerAbove, RingListener
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.lookup import PlaceLookup
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import LinkStateRequest
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Number, Ref
from implicast.overlay.links.requests import PointerRequests
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.stabilisation import Stabilisation
from implicast.peer.contract import Address, Host, Incarnation, Message, Part, decisions
from implicast.peer.detector import Detector

PARTS: dict[str, type[Part]] = {
    "stabilisation": Stabilisation,
    "lookup": PlaceLookup,
    "introducers": Introducers,
    "membership": Membership,
    "pointers": Pointers,
    "requests": PointerRequests,
}


class Links(Part, parts=PARTS):
    """One peer's right pointer, changed on request, and its newest left pointer."""

    __slots__ = (
        "_above",
        "introducers",
        "liveness",
        "lookup",
        "membership",
        "pointers",
        "position",
        "requests",
        "settings",
        "stabilisation",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        key: int,
        settings: LinkSettings,
        incarnation: Incarnation | None = None,
        neighbours: tuple[Ref, ...] = (),
    ) -> None:
        """`incarnation`: of the peer; None: by the clock. `neighbours`: of the earlier one."""
        super().__init__(address, host)
        self.settings = settings
        self.position = position = Position(address, key, settings.lefts)
        self._above = above = LayerAbove()
        send = self.send_to
        # Lambdas where a part reports to one that is created after it.
        self.liveness = liveness = RingLiveness(
            position,
            host,
            settings,
            self.request_state,
            lambda ref: above.listener.on_node_suspected(ref),
            lambda ref: self.lookup.lookup_via(ref.address),
            lambda: self.lookup.merge_soon(),
        )
        self.requests = requests = PointerRequests(
            position,
            host,
            settings,
            liveness,
            send,
            lambda kind: self.membership.on_target_lost(kind),
        )
        self.pointers = pointers = Pointers(
            position,
            host,
            settings,
            liveness,
            requests,
            above,
            send,
            lambda num: self.membership.on_insertion_proven(num),
            lambda: self.stabilisation.check_left(),
        )
        self.introducers = introducers = Introducers(position, host, neighbours)
        self.lookup = lookup = PlaceLookup(
            position, host, settings, liveness, pointers, introducers, above, send
        )
        self.stabilisation = stabilisation = Stabilisation(
            position, host, settings, liveness, requests, pointers, lookup, above, send
        )
        self.membership = Membership(
            position,
            host,
            settings,
            liveness,
            requests,
            pointers,
            introducers,
            lookup,
            stabilisation,
            above,
            incarnation,
        )

    # --- verbs

    def set_listener(self, listener: RingListener) -> None:
        self._above.set_listener(listener)

    def set_key(self, key: int) -> None:
        """Off the ring: choose the key for the next join."""
        self.position.set_key(key)

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join through members in a new incarnation; without introducers form a ring of one."""
        self.membership.join(introducers)

    def leave(self) -> None:
        """Leave the ring. The node keeps trying until it has left."""
        self.membership.leave()

    def restore(self, left: Ref, right: Ref, lefts: tuple[Ref, ...]) -> None:
        """Be a member of a converged ring, without callbacks; checks start at a random phase."""
        self.position.restore(left, right, lefts)
        self.membership.start_rounds(least=0.0)

    def nearby_nodes(self) -> tuple[Ref, ...]:
        """Nodes for the next incarnation to contact, the right neighbour first."""
        return self.lookup.nearby_nodes()

    # --- messages

    def send_right(self, message: Message) -> None:
        """Send to the right neighbour, unless that is an earlier incarnation of this node."""
        right = self.position.right
        if right.address != self.address:
            self.host.send(right.address, message)

    def send_to(self, to: Ref, message: Message) -> None:
        """Send a message; a message to this node itself is handled by a direct call."""
        if to.address == self.address:
            self.handle_message(self.address, message)
        else:
            self.host.send(to.address, message)

    def handle_message(self, sender: Address, message: Message) -> None:
        """Handle a message of the ring."""
        _DECIDES[type(message)](self, sender, message)

    def request_state(self, ref: Ref) -> None:
        """Ask a silent node for its links. Its answer ends the suspicion."""
        position = self.position
        request = LinkStateRequest(ref, position.me, 0, position.left, position.lnum)
        self.send_to(ref, request)

    def after_jittered(self, wait_us: int, alarm: Message, least: float = 0.5) -> int:
        """Set an alarm after `wait_us` times `least` to `least` + 1; returns the wait."""
        return after_jittered(self.host, wait_us, alarm, least)

    # --- reading

    @property
    def detector(self) -> Detector[Ref] | None:
        """The failure detector; None in a world without crashes."""
        detector = self.liveness.detector
        return detector if isinstance(detector, Detector) else None

    @property
    def state(self) -> str:
        return self.position.state

    @property
    def key(self) -> int:
        return self.position.key

    @property
    def me(self) -> Ref:
        return self.position.me

    @property
    def left(self) -> Ref:
        return self.position.left

    @property
    def right(self) -> Ref:
        return self.position.right

    @property
    def lefts(self) -> tuple[Ref, ...]:
        return self.position.lefts

    @property
    def lnum(self) -> Number:
        return self.position.lnum

    @property
    def is_confirmed(self) -> bool:
        return self.position.is_confirmed

    @property
    def is_pending(self) -> bool:
        """Whether an own request is not settled."""
        return self.requests.pending is not None

    @property
    def rnum(self) -> Number | None:
        return self.position.rnum


_DECIDES, _ = decisions(Links)
