"""One peer's part of a Chord# ring: its table, the two ways to maintain it, and the ring callbacks.

Theory of operation
-------------------
State. `table.py`: level i names the node 2^i places ahead, the end of the arc of 2^i nodes from it
on, and the combined value of these nodes. Level 0 *is* the ring's right pointer, so the owner of a
key is always defined, and a finger that is off by a few places only costs hops.

Invariants.
- An aggregate in use contains the value of every node in its arc that has had that value for longer
  than `stale_us`; otherwise it is unknown and excludes no node.
- Arcs are combined only where they touch.
- Level i + 1 is asked of the node at level i: ceil(log2 n) refreshes correct a whole table.

| mode | event | action |
|---|---|---|
| rounds | RoundDue, or a message of a higher round | begin that round: subscribe, publish level 0 |
| rounds | LevelUpdate | the level is learnt; the next one is subscribed to and published |
| rounds | CatchUp | SubscribeLevel for levels that are missing; suspect what never answers |
| rounds | another node stands at a level | publish at once, and again after a while |
| on demand | join, or an update flow | GetEntry from level 0 up; EntryReply |
| both | departure | FingerLeft to the nodes that have this one as a finger |
| both | FingerLeft | the node on its right takes its place |

A node with rounds is a member of the layer above as soon as it is on the ring; one without waits for
its first whole table. `rounds.py` and `pull.py` are handed the table and the `FingerOwner`.
"""

from collections.abc import Sequence

from implicast.overlay.chord_sharp.messages import FingerLeft, FingerValue
from implicast.overlay.chord_sharp.pull import TablePull
from implicast.overlay.chord_sharp.rounds import Rounds
from implicast.overlay.chord_sharp.settings import SharpSettings
from implicast.overlay.chord_sharp.table import Table, TableState
from implicast.overlay.links import Links, Place, Ref, RingListener
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Host, Part, handles


class ChordSharp(Part, RingListener, parts={"rounds": Rounds, "pull": TablePull}):
    """The table and its maintenance. It listens to `links`; `listener` is the layer above and
    supplies the own value.
    """

    __slots__ = ("_entering", "_wary", "links", "listener", "pull", "rounds", "settings", "table")

    def __init__(
        self,
        address: Address,
        host: Host,
        links: Links,
        settings: SharpSettings,
    ) -> None:
        super().__init__(address, host)
        self.links, self.settings, self.listener = links, settings, RingListener()
        links.set_listener(self)
        self.table = Table(links.me, None, settings.age_us)
        self.rounds = Rounds(links, self.table, settings, self)
        self.pull = TablePull(links, self.table, settings, self)
        self._wary = self._entering = False
        """`_wary`: whether a finger may be lost. Saves a check of every finger at each forwarded
        cast.
        """

    def set_listener(self, listener: RingListener) -> None:
        self.listener = listener

    def restore(self, state: TableState) -> None:
        """Restore the table of this node in a converged ring, as of now."""
        self.table.restore(self.links.me, self.value(), state, self.host.now_us)
        if self.settings.rounds:
            self.rounds.start()

    def value(self) -> FingerValue | None:
        """The own value; None if it is unknown."""
        value: FingerValue | None = self.listener.value()
        return value

    def on_table_refreshed(self) -> None:
        if self._entering:
            self._entering = False
            self.listener.on_joined()
        self.listener.on_table_refreshed()

    # --- lost nodes

    def is_lost(self, ref: Ref) -> bool:
        return self.links.liveness.detector.is_lost(ref)

    def any_lost(self) -> bool:
        """Whether any finger is lost."""
        if self._wary:
            self._wary = any(map(self.is_lost, self.table.nodes))
        return self._wary

    def note_possible_loss(self) -> None:
        """A finger may be lost."""
        self._wary = True

    def suspect(self, ref: Ref) -> None:
        """A node did not answer: suspect it."""
        self.links.liveness.suspect(ref)
        self.on_node_suspected(ref)

    def on_node_suspected(self, ref: Ref) -> None:
        self._wary = True
        if self.settings.rounds:
            self.rounds.skip_node(ref)
        self.listener.on_node_suspected(ref)

    def on_node_left(self, ref: Ref) -> None:
        if ref != self.links.right:
            self.links.liveness.detector.mark_left(ref)
            self._wary = True

    # --- ring callbacks

    def on_joined(self) -> None:
        """A joining node has its neighbours."""
        self.table.reset(self.links.me, self.value())
        if self.settings.rounds:
            self.rounds.stop()
            self.rounds.begin_round(self.rounds.number + 1)
            self.listener.on_joined()
        else:
            self._entering = True
            self.pull.refresh()

    def on_departed(self) -> None:
        self._entering = False
        right = self.links.right
        for address in (*self.rounds.stop(), *self.pull.stop()):
            if address not in (self.address, right.address):
                self.host.send(address, FingerLeft(self.links.me, right))
        self.listener.on_departed()

    def replacement_for(self, gone: Ref) -> Ref | None:
        """The node at the place of an incarnation that is gone, if known: its next incarnation, or
        its right neighbour if it left here.
        """
        links = self.links
        if links.state != OUT and links.me.place == gone.place:
            return links.me
        departed = links.pointers.departed.get(gone)
        return None if departed is None else departed.right

    def on_neighbours_changed(self) -> None:
        links, table = self.links, self.table
        if links.state == OUT or table.me != links.me:
            return
        before = table.nodes[:1]
        table.set_successor(links.right)
        if self.settings.rounds and table.nodes and table.nodes[:1] != before:
            self.rounds.on_successor_changed()
        self.listener.on_neighbours_changed()

    def on_repaired(self) -> None:
        """While the left neighbour was dead no node stated this place, and the right neighbour may
        have bypassed it: ask the right neighbour.
        """
        if self.links.right != self.links.me:
            self.links.pointers.send_set_l()

    def on_bypassed(self) -> None:
        self.listener.on_bypassed()

    def on_right_bypassed(self, old: Ref, new: Ref, others: Sequence[Ref]) -> None:
        self.listener.on_right_bypassed(old, new, others)

    def known_nodes(self) -> list[Ref]:
        return self.table.nodes

    def closest_preceding(self, place: Place) -> Ref | None:
        table = self.table
        mark, bounds = table.clockwise_key(place[0]), table.bounds()
        fits = [
            node
            for level, node in enumerate(table.nodes)
            if bounds[level + 1] < mark or (node.key == place[0] and node.place < place)
        ]
        living = (node for node in fits if not self.is_lost(node))
        return max(living, key=lambda node: table.clockwise_key(node.key), default=None)

    @handles(FingerLeft)
    def on_finger_left(self, sender: Address, message: FingerLeft) -> None:
        """A finger has left and names its right neighbour, which replaces it at once."""
        if self.links.state in (OUT, INS) or message.gone == self.links.me:
            return
        self.on_node_left(message.gone)
        if message.replacement is None:
            self.on_node_suspected(message.gone)
            return
        levels = self.table.replace_node(message.gone, message.replacement)
        self.pull.replaced(message.gone)
        for level in levels if self.settings.rounds else ():
            self.rounds.subscribe_level(level)
