"""Mistakes of living SPICE: of its stores, its walks, its registries on the move, and its replicas."""

from mistake import Mistake

from implicast.casting import inbox
from implicast.casting.spice.alive import casting, registry
from implicast.casting.spice.alive.items import CLOSED, Header, name_of
from implicast.casting.spice.alive.keeper import Keeper
from implicast.casting.spice.alive.spice import LivingSpice
from implicast.casting.spice.homes import roots_of
from implicast.world.faults import Faults

SMALL = {"peers": 24, "casts": 115, "faults": Faults(loss=0.02), "network": "flat", "strict": False}
LOSSY = {**SMALL, "faults": Faults(loss=0.05, duplicate=0.05)}
LOW = {"storage_limit": 4, "frequency_limit": 0.08, "rate_s": 10.0, "deepest_level": 1}
"""Limits so low that registries spread, are drawn together, raised and lowered all the time."""
CRASHES = "deed=5:crash:3,deed=6:crash:7,deed=12:crash:11,deed=25:crash:15,deed=26:crash:19"
FLUX = "joins=6,leaves=6,over_s=30"


def never(name):
    """A patch: this method does nothing."""
    return lambda patch: patch.setattr(LivingSpice, name, lambda self, *given: None)


def silence(alarm):
    """A patch: nothing happens when the alarm of this name rings."""

    def put(patch):
        rings = next(each for each in LivingSpice._handlers if each.__name__ == alarm)
        patch.setitem(LivingSpice._handlers, rings, lambda self, alarm: None)

    return put


def no_backups(patch):
    """Everything that comes in counts at once, and no heir hears of it."""

    def flush(self, alarm):
        fresh, self._fresh = self._fresh, []
        self._counts(fresh)

    rings = next(each for each in LivingSpice._handlers if each.__name__ == "Flush")
    patch.setitem(LivingSpice._handlers, rings, flush)


def last_word_wins(patch):
    """Whatever comes last is kept, however old it is."""

    def keep(self, entry, now_us, lease_us, safe=False):
        at = registry.home(self.root, self.notch, entry.spot, self.dimensions)
        held = self.records[entry.consumer] = registry.Held(entry, at, now_us, lease_us, safe)
        self.stock.version += 1
        return held

    patch.setattr(registry.Registry, "keep", keep)
    say = LivingSpice._say

    def say_late(self, version):
        """The version before comes again, late."""
        before = dict(self.told)
        say(self, version)
        self.later(5_000_000, lambda: [_say_old(self, tag, entry) for tag, entry in before.items()])

    patch.setattr(LivingSpice, "_say", say_late)


def _say_old(peer, tag, entry):
    newest = peer.told.get(tag)
    peer.told[tag] = entry
    peer._store(tag, None)
    if newest is None:
        del peer.told[tag]
    else:
        peer.told[tag] = newest


def forget_closed_parts(patch):
    """Whoever takes over a place takes it for open."""
    unite = Keeper._unite

    def without(self, item, tract, safe):
        if name_of(item.key)[0] != CLOSED:
            unite(self, item, tract, safe)

    patch.setattr(Keeper, "_unite", without)


def open_at_once(patch):
    """A part is opened as soon as it is to be drawn together, whatever is left above."""
    gather = LivingSpice.gather

    def hasty(self, key):
        gather(self, key)
        if key in self.gatherings:
            self._gathered(key)

    patch.setattr(LivingSpice, "gather", hasty)
    decide = LivingSpice.finished

    def often(self, work):
        decide(self, work)
        key = (work.walk.tag, work.walk.root, work.walk.notch)
        if key in self.registries and self.registries[key].closed and work.walk.notch == 0:
            self.gather(key)

    patch.setattr(LivingSpice, "finished", often)


def ready_at_once(patch):
    """The roots of a new level answer before anything was copied to them."""

    def hasty(self, tag, header):
        self._aim(tag, Header(header.number + 1, header.target, header.target, False))

    patch.setattr(LivingSpice, "_copy", hasty)


def only_the_original(patch):
    """Registrations are not sent to the replicas."""
    patch.setattr(LivingSpice, "roots_at", lambda self, tag, level: [casting.address_of(tag)])
    patch.setattr(LivingSpice, "new_roots", lambda self, tag, level: _new_roots(self, tag, level))


def _new_roots(peer, tag, level):
    roots = (set(roots_of(casting.address_of(tag), each, peer.settings.dimensions)) for each in (level, level - 1))
    larger, smaller = roots
    return sorted(larger - smaller)


MISTAKES = (
    Mistake(
        "heirs hear of nothing",
        "spice",
        rule="a registration counts when every heir has a copy (casting/spice/alive/storing.py)",
        put=no_backups,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
    ),
    Mistake(
        "no memory at the consumer",
        "spice",
        rule="a consumer tells repeats from news (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, cast: True),
        says="repeated",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "notifications are sent once",
        "spice",
        rule="a notification is repeated until it is confirmed (casting/spice/alive/casting.py)",
        put=lambda patch: patch.setattr(casting, "NOTIFY_TRIES", 1),
        says="missing",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "a registration is asked for once",
        "spice",
        rule="a consumer asks again for what was not confirmed (casting/spice/alive/registering.py)",
        put=silence("Again"),
        says="never complete",
        churn="joins=6,over_s=20",
        changes=LOSSY,
    ),
    Mistake(
        "the last word wins",
        "spice",
        rule="of two versions the newer is kept, whichever comes later (casting/spice/alive/registry.py)",
        put=last_word_wins,
        says="would not find",
        churn="deed=5:crash:3",
        changes={**SMALL, "changes": 20},
    ),
    Mistake(
        "losers offer nothing",
        "spice",
        rule="what lay on ground lost to a better title is offered to the winner (casting/spice/alive/offering.py)",
        put=lambda patch: patch.setattr(LivingSpice, "yielded", lambda self, tract: self.drop(tract)),
        says="would not find",
        churn="deed=4..30:split:0+1+2+3+4+5+6+7+8+9,deed=20:join:24,deed=20.5:join:25,deed=21:join:26,deed=21.5:join:27",
        changes={**SMALL, "casts": 125},
        parameters={"hello_s": 3.0},
    ),
    Mistake(
        "closed parts are forgotten on the way",
        "spice-unloaded",
        rule="closed parts go with the ground, and are united (casting/spice/alive/keeper.py)",
        put=forget_closed_parts,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "opened before all is covered",
        "spice-unloaded",
        rule="a part is opened when nothing is left above it (casting/spice/alive/gathering.py)",
        put=open_at_once,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
        parameters={"storage_limit": 4, "frequency_limit": 0.0},
    ),
    Mistake(
        "ready before anything was copied",
        "spice-unloaded",
        rule="a root is told that it is ready when all has been copied to it (casting/spice/alive/replicating.py)",
        put=ready_at_once,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "replicas are not told of newcomers",
        "spice-unloaded",
        rule="a registration goes to every root before it is confirmed (casting/spice/alive/fanning.py)",
        put=only_the_original,
        says="missing",
        churn="deed=60:join:24,deed=61:join:25,deed=62:join:26",
        changes={**SMALL, "casts": 150},
        parameters=LOW,
    ),
)
