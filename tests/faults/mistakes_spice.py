"""Mistakes of SPICE: of its stores, its walks, its registries on the move, and its replicas."""

from mistake import Mistake

from implicast.casting import inbox
from implicast.casting.spice import casts, registry
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.homes import address_of, roots_of
from implicast.casting.spice.items import CLOSED, Header
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.registrations import Again, Registrations, Unsaid
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.shelf import Shelf
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.stores import Stores
from implicast.peer.asking import Patience
from implicast.world.faults import Faults

SMALL = {"peers": 24, "casts": 115, "faults": Faults(loss=0.02), "network": "flat", "strict": False}
LOSSY = {**SMALL, "faults": Faults(loss=0.05, duplicate=0.05)}
LOW = {"storage_limit": 4, "frequency_limit": 0.08, "rate_s": 10.0, "deepest_level": 1}
"""Limits so low that registries spread, are drawn together, raised and lowered all the time."""
CRASHES = "deed=5:crash:3,deed=6:crash:7,deed=12:crash:11,deed=25:crash:15,deed=26:crash:19"
FLUX = "joins=6,leaves=6,over_s=30"


def silence(alarm):
    """A patch: nothing happens when this alarm rings."""
    return lambda patch: patch.setitem(Spice._alarms, alarm, lambda self, alarm: None)


def no_backups(patch):
    """Everything that comes in counts at once, and no heir hears of it."""

    def back_up(self):
        fresh, self._fresh = self._fresh, []
        self._counts(fresh)

    patch.setattr(Stores, "_back_up", back_up)


def last_word_wins(patch):
    """Whatever comes last is kept, however old it is."""

    def keep(self, entry, now_us, until_us, safe=False):
        at = registry.home(self.root, self.notch, entry.spot, self.dimensions)
        held = self.records[entry.member.name] = registry.Held(entry, at, now_us, until_us, safe)
        self._packed = self._rows = None
        self._due_us = min(self._due_us, until_us)
        self.stock.changed()
        return held

    patch.setattr(registry.Registry, "keep", keep)
    say, once = Registrations._say, Registrations.on_unsaid
    older = {}

    def say_late(self, version):
        """The version before comes again, late."""
        before = dict(self.told)
        say(self, version)
        for tag, entry in before.items():
            older[self.address, tag] = entry
            self.spice.later.put(5_000_000, Unsaid(tag, -1, 0))

    def say_old(self, alarm):
        if alarm.version == -1:
            _say_old(self, alarm.tag, older[self.address, alarm.tag])
        else:
            once(self, alarm)

    patch.setattr(Registrations, "_say", say_late)
    patch.setitem(Spice._alarms, Unsaid, lambda self, alarm: say_old(self.registrations, alarm))


def _say_old(registrations, tag, entry):
    newest = registrations.told.get(tag)
    registrations.told[tag] = entry
    registrations._store(tag, None)
    if newest is None:
        del registrations.told[tag]
    else:
        registrations.told[tag] = newest


def forget_closed_parts(patch):
    """Whoever takes over a place takes it for open."""
    unite = Shelf.unite

    def without(self, label, item, tract, safe):
        return label[0] == CLOSED or unite(self, label, item, tract, safe)

    patch.setattr(Shelf, "unite", without)


def open_at_once(patch):
    """A part is opened as soon as it is to be drawn together, whatever is left above."""
    gather = Containers.gather

    def hasty(self, key):
        gather(self, key)
        if key in self.gatherings:
            self._gathered(key)

    def often(self, work):
        key = (work.walk.tag, work.walk.root, work.walk.notch)
        registries = self.spice.shelf.registries
        if key in registries and registries[key].closed and work.walk.notch == 0:
            self.gather(key)

    patch.setattr(Containers, "gather", hasty)
    patch.setattr(Containers, "passed", often)


def ready_at_once(patch):
    """The roots of a new level answer before anything was copied to them."""

    def hasty(self, tag, level):
        self._aim(tag, Header(self.spice.levels.header(tag).number + 1, level, level, False))

    patch.setattr(Replicas, "_copy", hasty)


def only_the_original(patch):
    """Registrations are not sent to the replicas."""
    patch.setattr(Levels, "roots_at", lambda self, tag, level: [address_of(tag)])
    patch.setattr(Levels, "new_roots", _new_roots)


def _new_roots(levels, tag, level, known):
    roots = (
        set(roots_of(address_of(tag), each, levels._settings.dimensions)) for each in (level, known)
    )
    larger, smaller = roots
    return sorted(larger - smaller)


MISTAKES = (
    Mistake(
        "heirs hear of nothing",
        "spice",
        rule="a registration counts when every heir has a copy (casting/spice/stores.py)",
        put=no_backups,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
    ),
    Mistake(
        "no memory at the consumer",
        "spice",
        rule="a consumer tells repeats from news (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, cast, now_us=0: True),
        says="repeated",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "notifications are sent once",
        "spice",
        rule="a notification is repeated until it is confirmed (casting/spice/casts.py)",
        put=lambda patch: patch.setattr(casts, "PATIENCE", Patience(500_000, 1)),
        says="missing",
        churn="deed=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "a registration is asked for once",
        "spice",
        rule="a consumer asks again for what was not confirmed (casting/spice/registrations.py)",
        put=silence(Again),
        says="never complete",
        churn="joins=6,over_s=20",
        changes=LOSSY,
    ),
    Mistake(
        "the last word wins",
        "spice",
        rule="of two versions the newer is kept, whichever comes later (casting/spice/registry.py)",
        put=last_word_wins,
        says="missing",
        churn="deed=5:crash:3",
        changes={**SMALL, "changes": 20},
    ),
    Mistake(
        "losers offer nothing",
        "spice",
        rule="what lay on ground lost to a better title is offered to the winner (casting/spice/calls.py)",
        put=lambda patch: patch.setattr(Spice, "yielded", lambda self, tract: self.drop(tract)),
        says="would not find",
        churn="deed=4..30:split:0+1+2+3+4+5+6+7+8+9,deed=20:join:24,deed=20.5:join:25,deed=21:join:26,deed=21.5:join:27",
        changes={**SMALL, "casts": 125},
        parameters={"hello_s": 3.0},
    ),
    Mistake(
        "closed parts are forgotten on the way",
        "spice-unloaded",
        rule="closed parts go with the ground, and are united (casting/spice/shelf.py)",
        put=forget_closed_parts,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "opened before all is covered",
        "spice-unloaded",
        rule="a part is opened when nothing is left above it (casting/spice/containers.py)",
        put=open_at_once,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
        parameters={"storage_limit": 4, "frequency_limit": 0.0},
        seed=3,
    ),
    Mistake(
        "ready before anything was copied",
        "spice-unloaded",
        rule="a root is told that it is ready when all has been copied to it (casting/spice/replicas.py)",
        put=ready_at_once,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "replicas are not told of newcomers",
        "spice-unloaded",
        rule="a registration goes to every root before it is confirmed (casting/spice/copies.py)",
        put=only_the_original,
        says="missing",
        churn="deed=60:join:24,deed=61:join:25,deed=62:join:26",
        changes={**SMALL, "casts": 150},
        parameters=LOW,
    ),
)
