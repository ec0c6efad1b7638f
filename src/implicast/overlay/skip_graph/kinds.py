"""The message kinds of the skip graph, for the codec of a design."""

from implicast.overlay.skip_graph.anti_entropy import CompareLists, ListDifferences
from implicast.overlay.skip_graph.departures import ClaimAck, DenyPlaces, LeaveGraph, LeavePlace
from implicast.overlay.skip_graph.members import SuspicionReport
from implicast.overlay.skip_graph.probes import ProbeAck, ProbePlaces
from implicast.overlay.skip_graph.search import AnnouncePlace, AskNeighbours, Neighbours
from implicast.peer.contract import Message

GRAPH_KINDS: tuple[type[Message], ...] = (
    AskNeighbours,
    Neighbours,
    AnnouncePlace,
    ClaimAck,
    LeavePlace,
    LeaveGraph,
    DenyPlaces,
    SuspicionReport,
    ProbePlaces,
    ProbeAck,
    CompareLists,
    ListDifferences,
)
