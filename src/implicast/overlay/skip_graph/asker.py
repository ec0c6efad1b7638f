"""The questions of the graph. Upkeep asks too: on the alarm of what a verb asks, a verb's repeats would pass for it."""

from implicast.overlay.skip_graph.messages import GraphLate
from implicast.peer.asking import Asking
from implicast.peer.contract import handles


class GraphAsker(Asking):
    """Asks, waits, asks again and gives up, for all parts of one peer's share of the graph."""

    __slots__ = ()
    alarm = GraphLate()

    @handles(GraphLate)
    def on_graph_late(self, alarm: GraphLate) -> None:
        self.ask_again()
