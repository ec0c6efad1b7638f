"""A design of one's own in fifty lines: every cast is flooded to everybody, who decide for
themselves.

It keeps the contract and shows what that costs: RTH is the population divided by the group.

    .venv/bin/python examples/own_design.py
"""

from implicast import Scenario, simulate
from implicast.casting.designs import ASSURANCE, Design, add
from implicast.casting.inbox import Inbox
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Message, Peer, handles
from implicast.peer.events import Joined, Left, Registered, Withdrawn
from implicast.peer.member import Member
from implicast.peer.site import Site
from implicast.world.plan import Plan


class Shout(Message):
    """A cast, told to everybody."""

    wire = 0x7001

    cast: CastId
    target: Target
    payload: bytes


class Shouter(Member):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.everybody = site.infrastructure["everybody"]
        self.inbox = Inbox(site, self.policy, self.fit)

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.host.deliver(Joined())

    def leave(self) -> None:
        self.host.deliver(Left())

    def register(self, description: Description) -> None:
        self.description = description
        self.host.deliver(Registered(self.next_version()))

    def withdraw(self) -> None:
        self.description = None
        self.host.deliver(Withdrawn(self.next_version()))

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        carried = self.seal(cast, target, payload, expiry_us)
        for address in self.everybody:
            if address != self.address:
                self.host.send(address, Shout(cast, target, carried))
        self.inbox.take(cast, target, carried)
        return cast

    @handles(Shout)
    def on_shout(self, sender: Address, shout: Shout) -> None:
        self.inbox.take(shout.cast, shout.target, shout.payload)


def assemble(plan: Plan) -> list[Peer]:
    return [Shouter(plan.site(address)) for address in range(plan.peers)]


def everybody(peers: int, infrastructure: int) -> dict[str, tuple[int, ...]]:
    return {"everybody": tuple(range(peers))}


SHOUT = Design(
    "shout",
    "Everybody is told of everything.",
    "nowhere",
    kinds=(Shout,),
    member=Shouter,
    assemble=assemble,
    roles=everybody,
    parameters=(ASSURANCE,),
)


def main() -> None:
    add(SHOUT)
    outcome = simulate(
        Scenario("shout", peers=256, casts=64, parameters={"assurance": "none"}, strict=True)
    )
    print("contract kept:", outcome.contract.clean)
    print("messages against one server that knows everybody:", round(outcome.measures["RTH"], 1))


if __name__ == "__main__":
    main()
