"""A run as one value: design, parameters, workload, network, faults, seed. Equal scenarios give
equal journals.
"""

from dataclasses import asdict, dataclass, field, replace
from shlex import quote
from typing import Any, Final, Literal

from implicast.casting.designs import Design, design
from implicast.language.parameters import Parameters, Setting
from implicast.peer.errors import ScenarioError
from implicast.workload.workload import schema
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.liars.liars import Liars

ASSEMBLED: Final = "assembled"
MESSAGES: Final = "messages"
"""How the network is set up, and how registrations are made."""
PEERS_MAX = 4_000_000
CASTS_MAX = 10_000_000
"""More exceeds the memory of current machines; a typing error is likelier."""
PAYLOAD_MAX = 32 * 1024
"""Largest payload that travels inside a cast. Larger content is fetched separately."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate. All times of a run follow from it; nothing else influences the run."""

    design: str
    peers: int = 4096
    casts: int = 1024
    seed: int = 1
    parameters: dict[str, Setting] = field(default_factory=dict)
    """Parameters of the design; defaults where not given."""
    workload: str = "zipf"
    """`zipf`, `extreme`, `groups`, `attributes`, or a directory of tables."""
    workload_parameters: dict[str, Setting] = field(default_factory=dict)
    network: str = "flat"
    """`flat`, `national`, `laboratory`, `worldwide`, or the path of a map."""
    interval_ms: int = 1000
    """Time between two casts."""
    warm_up: int = 0
    """Casts before the measured ones. They are checked like these, but count in no measure of load,
    cost or latency.
    """
    payload_bytes: int = 0
    """Payload of each cast; compared with that of its notices."""
    start: Literal["assembled", "joined"] = "assembled"
    """The converged overlay at once, or peers that join one after the other by messages."""
    register: Literal["", "assembled", "messages"] = ""
    """Preload all registrations (`assembled`) or register by messages. Empty: as `start`
    (`registers`).
    """
    changes: int = 0
    """Number of re-registrations and withdrawals at random times during the casts; with churn,
    before the end of its last event.
    """
    faults: Faults = field(default_factory=Faults)
    churn: Churn = field(default_factory=Churn)
    """Churn and temporary faults, from the first cast on."""
    liars: Liars | None = None
    """Members that lie, from the first cast on."""
    strict: bool = False
    """Encode every message on sending and compare on arrival, as tests do."""

    def settled(self) -> tuple[Design, Parameters]:
        """The design and its checked parameters; `LocalError` if the scenario is invalid."""
        found = design(self.design)
        _within("peers", self.peers, 1, PEERS_MAX)
        _within("casts", self.casts, 0, CASTS_MAX)
        _within("interval_ms", self.interval_ms, 1, 86_400_000)
        _within("warm_up", self.warm_up, 0, CASTS_MAX)
        _within("payload_bytes", self.payload_bytes, 0, PAYLOAD_MAX)
        _within("changes", self.changes, 0, CASTS_MAX)
        if self.start not in ("assembled", "joined"):
            raise ScenarioError(f"start={self.start!r}; it takes assembled or joined")
        if self.register not in ("", ASSEMBLED, MESSAGES):
            raise ScenarioError(f"register={self.register!r}; it takes {ASSEMBLED} or {MESSAGES}")
        if self.register == ASSEMBLED and self.start != ASSEMBLED:
            raise ScenarioError(
                f"register={ASSEMBLED} needs start={ASSEMBLED}: "
                "a member that has yet to join cannot be preloaded"
            )
        parameters = found.settle({**self._schema(found), **self.parameters})
        if self.churn.events:
            self.churn.refuse_strangers(self.peers, found.infrastructure(self.peers, parameters))
        return found, parameters

    def refuse_what_is_in_vain(self) -> None:
        """Raise a `ScenarioError` if the design has no server or broker for the restarts or fails
        asked for.

        For commands about one design. Where one churn applies to many designs, those without
        brokers leave it out.
        """
        found, parameters = self.settled()
        fixed, churn = found.infrastructure(self.peers, parameters), self.churn
        have = (
            "has no servers or brokers"
            if not fixed
            else "has only one server or broker, and the last one stays"
        )
        for name, asked, possible in (
            ("restarts", churn.restarts, fixed > 0),
            ("fails", churn.fails, fixed > 1),
        ):
            if asked and not possible:
                raise ScenarioError(f"churn: {name}={asked}: {found.name} {have}; leave it out")

    def promised(self) -> bool:
        """Whether the design promises the contract under this scenario. Every design does without
        faults. With faults only a design with receipts does, and none during a permanent partition
        unless the time after it is checked too. With liars a wary design promises that no honest
        member is deceived; delivery is not promised.
        """
        found, parameters = self.settled()
        if self.liars is not None:
            return found.wary
        if not self.churn and not self.faults.text():
            return True
        if parameters.get("assurance") == "none" or (self._lacking() and not self.churn):
            return False
        return bool(self.churn) or (not self.faults.partitions and "loss" in found.survives)

    def advice(self) -> str:
        """The settings with which the design survives this scenario, if they are not set; otherwise
        empty.
        """
        lacking = self._lacking()
        if not lacking or not (self.churn or self.faults.text()):
            return ""
        return f"{self.design} survives change only with {' '.join(lacking)}"

    def _lacking(self) -> list[str]:
        found, parameters = self.settled()
        wanted = {**({"assurance": "receipts"} if "assurance" in parameters else {}), **found.trial}
        return [
            f"--set {name}={str(value).lower()}"
            for name, value in wanted.items()
            if parameters[name] != value
        ]

    def _schema(self, found: Design) -> dict[str, Setting]:
        """The workload's schema, for designs that need it and are not given one."""
        values = schema(self.workload, **self.workload_parameters)
        if values and "attributes" not in found.languages:
            spoken = ", ".join(found.languages)
            raise ScenarioError(
                f"{found.name} speaks {spoken}: it does not understand the workload {self.workload}"
            )
        return (
            {"schema": values}
            if values and any(each.name == "schema" for each in found.parameters)
            else {}
        )

    @property
    def registers(self) -> str:
        """How members register: `register` if given; otherwise preloaded in an assembled network
        and by messages in one that grows. Newcomers and later changes always use messages.
        """
        return self.register or (ASSEMBLED if self.start == ASSEMBLED else MESSAGES)

    def with_seed(self, seed: int) -> "Scenario":
        return replace(self, seed=seed)

    def described(self) -> dict[str, Any]:
        """Plain values for JSON and the journal; churn and liars as text, if any."""
        plain = {**asdict(replace(self, churn=Churn(), liars=None)), "register": self.registers}
        del plain["churn"], plain["liars"]
        lying = {"liars": self.liars.text()} if self.liars is not None else {}
        return {**plain, **({"churn": self.churn.text()} if self.churn else {}), **lying}

    def command(self) -> str:
        """The command line that replays this run."""
        arguments = [
            "implicast simulate",
            self.design,
            f"--peers {self.peers} --casts {self.casts} --seed {self.seed}",
        ]
        arguments += [f"--workload {self.workload}", f"--network {self.network}"]
        arguments += [f"--set {name}={value}" for name, value in self.parameters.items()]
        arguments += [f"--with {name}={value}" for name, value in self.workload_parameters.items()]
        arguments += [f"--interval-ms {self.interval_ms}"] * (self.interval_ms != 1000)
        arguments += [f"--warm-up {self.warm_up}"] * bool(self.warm_up)
        arguments += [f"--payload-bytes {self.payload_bytes}"] * bool(self.payload_bytes)
        arguments += [f"--start {self.start}"] * (self.start != ASSEMBLED)
        arguments += [f"--register {self.register}"] * bool(self.register)
        arguments += [f"--changes {self.changes}"] * bool(self.changes)
        arguments += [f"--faults {self.faults.text()}"] * bool(self.faults.text())
        arguments += [f"--churn {quote(self.churn.text())}"] * bool(self.churn)
        arguments += [f"--liars {self.liars.text()}"] if self.liars is not None else []
        arguments += ["--strict"] * self.strict
        return " ".join(arguments)


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ScenarioError(f"{name}={value} is out of range; it takes {low} to {high}")
