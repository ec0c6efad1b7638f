"""How far brokers are from each other: measured by messages, and told to the root, which makes the tree.

Before the root makes a tree it asks every member for its round trips to the others. A broker measures those that it has
not measured and answers when all are there, or when it is asked again: a member that died meanwhile holds up nobody.
Of several measurements the shortest counts, for a longer one tells of a queue or a pause; a pair that neither end
could measure counts as far apart.
"""

from collections.abc import Callable, Mapping, Sequence

from implicast.overlay.backbone.messages import Gauge, Gauged, Survey, Surveyed
from implicast.peer.contract import Address, Host, Part, handles

FAR_US = 10_000_000
"""Between brokers that could not measure it; no measurement is longer."""


class Spans(Part):
    """What one broker knows of round trips; `surveyed` is called when there is news for a root."""

    __slots__ = ("_asked", "_own_us", "_rank", "_surveyed", "_told")

    def __init__(
        self,
        address: Address,
        host: Host,
        ranks: Mapping[Address, int],
        surveyed: Callable[[], None],
    ) -> None:
        """`ranks`: of all brokers there could be, in the order that all agree on."""
        super().__init__(address, host)
        self._surveyed = surveyed
        self._rank = ranks
        self._own_us: dict[Address, int] = {}
        self._told: dict[Address, tuple[int, ...]] = {}
        """What others have told, at a broker that was root."""
        self._asked: dict[Address, Survey] = {}
        """By whom this broker was asked, and has not answered."""

    def know(self, members: Sequence[Address]) -> bool:
        """Has every member told how far it is from the others?"""
        return all(
            member in self._told for member in members if member != self.address
        ) and not self._lacking(members)

    def survey(self, members: Sequence[Address]) -> None:
        """Ask the members that have not told, and measure what is lacking here."""
        self._measure(members)
        for member in members:
            if member != self.address and member not in self._told:
                self.host.send(member, Survey(tuple(members)))

    def _lacking(self, members: Sequence[Address]) -> list[Address]:
        return [
            each
            for each in members
            if each != self.address and each in self._rank and each not in self._own_us
        ]

    def _measure(self, members: Sequence[Address]) -> None:
        for member in self._lacking(members):
            self.host.send(member, Gauge(self.host.now_us))

    @handles(Gauge)
    def on_gauge(self, sender: Address, gauge: Gauge) -> None:
        if sender in self._rank:
            self.host.send(sender, Gauged(gauge.sent_us))

    @handles(Gauged)
    def on_gauged(self, sender: Address, gauged: Gauged) -> None:
        took_us = self.host.now_us - gauged.sent_us
        if sender not in self._rank or not 0 <= took_us < FAR_US:
            return
        self._own_us[sender] = max(1, min(took_us, self._own_us.get(sender, FAR_US)))
        for asker, survey in list(self._asked.items()):
            if not self._lacking(survey.members):
                self._tell(asker)
        self._surveyed()

    @handles(Survey)
    def on_survey(self, sender: Address, survey: Survey) -> None:
        if sender not in self._rank:
            return
        if sender in self._asked or not self._lacking(survey.members):
            self._tell(sender)
        else:
            self._asked[sender] = survey
            self._measure(survey.members)

    def _tell(self, asker: Address) -> None:
        self._asked.pop(asker, None)
        self.host.send(asker, Surveyed(tuple(self._own_us.get(broker, 0) for broker in self._rank)))

    @handles(Surveyed)
    def on_surveyed(self, sender: Address, surveyed: Surveyed) -> None:
        if sender in self._rank and len(surveyed.round_trips_us) == len(self._rank):
            self._told[sender] = surveyed.round_trips_us
            self._surveyed()

    def round_trip_us(self, a: Address, b: Address) -> int:
        """The shorter of what both ends have measured."""
        return min(self._measured_us(a, b) or FAR_US, self._measured_us(b, a) or FAR_US)

    def _measured_us(self, a: Address, b: Address) -> int:
        if a == self.address:
            return self._own_us.get(b, 0)
        return self._told[a][self._rank[b]] if a in self._told else 0
