"""A run as one value: design, parameters, workload, network, hardship, seed. Same scenario, same journal."""

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
"""How a network comes to be, and how registrations come into it."""
PEERS_MAX = 4_000_000
CASTS_MAX = 10_000_000
"""More would not fit any machine this runs on; a typing error is likelier."""
PAYLOAD_MAX = 32 * 1024
"""What travels inside a cast; more would be fetched, not sent."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is to be simulated. Times within a run follow from it; nothing else has any influence."""

    design: str
    peers: int = 4096
    casts: int = 1024
    seed: int = 1
    parameters: dict[str, Setting] = field(default_factory=dict)
    """Of the design; defaults where not given."""
    workload: str = "zipf"
    """`zipf`, `extreme`, `groups`, `attributes`, or a directory of tables."""
    workload_parameters: dict[str, Setting] = field(default_factory=dict)
    network: str = "flat"
    """`flat`, `national`, `laboratory`, `worldwide`, or the path of a map."""
    interval_ms: int = 1000
    """Time between two casts."""
    warm_up: int = 0
    """Casts before those that are measured: made and judged like them, but in no measure of load, cost or latency."""
    payload_bytes: int = 0
    """What each cast carries; compared with what arrives."""
    start: Literal["assembled", "joined"] = "assembled"
    """The converged overlay at once, or grown peer by peer through messages."""
    register: Literal["", "assembled", "messages"] = ""
    """What registrations leave behind put in place at once, or registering by messages. Empty: as the network starts
    (`registers`)."""
    changes: int = 0
    """How many peers re-register or withdraw at random moments while casts are under way; where there is churn, while
    its deeds go on, so that all is quiet after them."""
    faults: Faults = field(default_factory=Faults)
    churn: Churn = field(default_factory=Churn)
    """Who comes, goes and crashes, and what else befalls peers, from the first cast on."""
    liars: Liars | None = None
    """Members that lie, from the first cast on."""
    strict: bool = False
    """Encode every message on sending and compare on arrival, as tests do."""

    def settled(self) -> tuple[Design, Parameters]:
        """The design with its parameters checked; raises a `LocalError` for whatever is wrong with the scenario."""
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
                f"register={ASSEMBLED} needs start={ASSEMBLED}: who has yet to join cannot be listed"
            )
        parameters = found.settle({**self._schema(found), **self.parameters})
        if self.churn.deeds:
            self.churn.refuse_strangers(self.peers, found.infrastructure(self.peers, parameters))
        return found, parameters

    def refuse_what_is_in_vain(self) -> None:
        """A `ScenarioError` where none of the changes asked for could be made: something else must have been meant.

        For whoever asks for one design; where many are asked for the same, those without brokers do without.
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
        """Does the design promise the contract in such a world? Everyone does where nothing fails; where something
        does, with receipts alone; and nobody while the network is parted, unless what follows is judged too. Where
        members lie, a wary design promises that nobody honest is deceived; how much arrives is a matter of chance."""
        found, parameters = self.settled()
        if self.liars is not None:
            return found.wary
        if not self.churn and not self.faults.text():
            return True
        if parameters.get("assurance") == "none" or (self._lacking() and not self.churn):
            return False
        return bool(self.churn) or (not self.faults.partitions and "loss" in found.survives)

    def advice(self) -> str:
        """What would help a design where something fails, if that was not set; else empty."""
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
        """Designs that have to know what values there are learn it from the workload, unless they are told."""
        told = schema(self.workload, **self.workload_parameters)
        if told and "attributes" not in found.languages:
            spoken = ", ".join(found.languages)
            raise ScenarioError(
                f"{found.name} speaks {spoken}: it does not understand the workload {self.workload}"
            )
        return (
            {"schema": told}
            if told and any(each.name == "schema" for each in found.parameters)
            else {}
        )

    @property
    def registers(self) -> str:
        """How members register, unless the scenario says it: at once in an assembled network, by messages in one that
        grows. Who comes or describes itself anew later registers by messages in either."""
        return self.register or (ASSEMBLED if self.start == ASSEMBLED else MESSAGES)

    def with_seed(self, seed: int) -> "Scenario":
        return replace(self, seed=seed)

    def described(self) -> dict[str, Any]:
        """Plain values, for JSON and for the journal; churn as the text that gives it, if there is any."""
        plain = asdict(replace(self, churn=Churn(), liars=None, register=self.registers))  # type: ignore[arg-type]
        del plain["churn"], plain["liars"]
        lying = {"liars": self.liars.text()} if self.liars is not None else {}
        return {**plain, **({"churn": self.churn.text()} if self.churn else {}), **lying}

    def command(self) -> str:
        """The command line that replays this run."""
        words = [
            "implicast simulate",
            self.design,
            f"--peers {self.peers} --casts {self.casts} --seed {self.seed}",
        ]
        words += [f"--workload {self.workload}", f"--network {self.network}"]
        words += [f"--set {name}={value}" for name, value in self.parameters.items()]
        words += [f"--with {name}={value}" for name, value in self.workload_parameters.items()]
        words += [f"--interval-ms {self.interval_ms}"] * (self.interval_ms != 1000)
        words += [f"--warm-up {self.warm_up}"] * bool(self.warm_up)
        words += [f"--payload-bytes {self.payload_bytes}"] * bool(self.payload_bytes)
        words += [f"--start {self.start}"] * (self.start != ASSEMBLED)
        words += [f"--register {self.register}"] * bool(self.register)
        words += [f"--changes {self.changes}"] * bool(self.changes)
        words += [f"--faults {self.faults.text()}"] * bool(self.faults.text())
        words += [f"--churn {quote(self.churn.text())}"] * bool(self.churn)
        words += [f"--liars {self.liars.text()}"] if self.liars is not None else []
        words += ["--strict"] * self.strict
        return " ".join(words)


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ScenarioError(f"{name}={value} is out of range; it takes {low} to {high}")
