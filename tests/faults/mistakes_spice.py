"""Mistakes put into SPICE on purpose: storing, traversals, moving registries, replicas."""

from functools import partial

from mistake import Mistake, without_unreachable

from implicast.casting import inbox
from implicast.casting.spice import casts, registry
from implicast.casting.spice import casts as spice_casts
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.homes import address_of, roots_of
from implicast.casting.spice.items import CLOSED, ReplicationHeader, label_of
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.registrations import Registrations, RetryRegistration
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.stores import Stores
from implicast.peer.requests import RetryPolicy
from implicast.world.faults import Faults

SMALL = {"peers": 24, "casts": 115, "faults": Faults(loss=0.02), "network": "flat", "strict": False}
LOSSY = {**SMALL, "faults": Faults(loss=0.05, duplicate=0.05)}
LOW = {"storage_limit": 4, "frequency_limit": 0.08, "rate_s": 10.0, "deepest_level": 1}
"""Limits so low that registries spread, are drawn together, raised and lowered all the time."""
CRASHES = "event=5:crash:3,event=6:crash:7,event=12:crash:11,event=25:crash:15,event=26:crash:19"
FLUX = "joins=6,leaves=6,over_s=30"


def silence(alarm):
    """A patch: the alarm has no effect."""
    return lambda patch: patch.setitem(Spice.alarm_handlers, alarm, lambda self, alarm: None)


def no_backups(patch):
    """Every entry is acknowledged at once and never backed up."""

    def back_up(self):
        fresh, self.unbacked = self.unbacked, []
        self.confirm_backed_up(fresh)

    patch.setattr(Stores, "back_up", back_up)


def last_arrival_wins(patch):
    """The last entry to arrive is stored, even an older one."""

    def keep(self, entry, now_us, until_us, safe=False):
        at = registry.home(self.root, self.notch, entry.spot, self.dimensions)
        record = self.records[entry.member.name] = registry.Record(
            entry, at, now_us, until_us, safe
        )
        self._packed = self._rows = None
        self._due_us = min(self._due_us, until_us)
        self.counter.bump()
        return record

    patch.setattr(registry.Registry, "keep", keep)
    say, once = Registrations.announce_version, Registrations.retry_reregister
    older = {}

    def say_late(self, version):
        """The version before comes again, late."""
        before = dict(self.announced)
        say(self, version)
        for tag, entry in before.items():
            older[self.address, tag] = entry
            self.timer_wheel.schedule(5_000_000, partial(self.retry_reregister, tag, -1, 0))

    def say_old(self, tag, version, tries):
        if version == -1:
            _say_old(self, tag, older[self.address, tag])
        else:
            once(self, tag, version, tries)

    patch.setattr(Registrations, "announce_version", say_late)
    patch.setattr(Registrations, "retry_reregister", say_old)


def _say_old(registrations, tag, entry):
    newest = registrations.announced.get(tag)
    registrations.announced[tag] = entry
    registrations.send_store(tag, None)
    if newest is None:
        del registrations.announced[tag]
    else:
        registrations.announced[tag] = newest


def forget_closed_parts(patch):
    """A new owner treats every part as open."""
    unite = Registries.unite

    def without(self, item, tract, safe):
        return () if label_of(item.key)[0] == CLOSED else unite(self, item, tract, safe)

    patch.setattr(Registries, "unite", without)


def open_at_once(patch):
    """A part is opened as soon as it is to be drawn together, whatever is left above."""
    gather = Containers.gather

    def hasty(self, key):
        gather(self, key)
        if key in self.gatherings:
            self.on_gathered(key)

    def often(self, task):
        key = (task.traversal.tag, task.traversal.root, task.traversal.notch)
        registries = self._registries.by_key
        if key in registries and registries[key].closed and task.traversal.notch == 0:
            self.gather(key)

    patch.setattr(Containers, "gather", hasty)
    patch.setattr(Containers, "gather_if_shrunken", often)


def ready_at_once(patch):
    """The roots of a new level answer before anything was copied to them."""

    def hasty(self, tag, level):
        number = self._registries.levels.header(tag).number + 1
        self.propose_header(tag, ReplicationHeader(number, level, level, False))

    patch.setattr(Replicas, "start_copy", hasty)


def only_the_original(patch):
    """Registrations are not sent to the replicas."""
    patch.setattr(Levels, "roots_at", lambda self, tag, level: [address_of(tag)])
    patch.setattr(Levels, "new_roots", _new_roots)


def _new_roots(levels, tag, level, known):
    roots = (
        set(roots_of(address_of(tag), each, levels.settings.dimensions)) for each in (level, known)
    )
    larger, smaller = roots
    return sorted(larger - smaller)


MISTAKES = (
    Mistake(
        "backups get no copies",
        "spice",
        rule="a registration is acknowledged when every backup has a copy (casting/spice/stores.py)",
        put=no_backups,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
    ),
    Mistake(
        "no memory at the consumer",
        "spice",
        rule="a consumer recognises duplicates (casting/inbox.py)",
        put=lambda patch: patch.setattr(inbox.Seen, "first", lambda self, *given: True),
        says="repeated",
        churn="event=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "notifications are sent once",
        "spice",
        rule="a notification is repeated until it is acknowledged (casting/spice/casts.py)",
        put=lambda patch: patch.setattr(casts, "NOTIFY_RETRY", RetryPolicy(500_000, 1)),
        says="missing",
        churn="event=5:crash:3",
        changes=LOSSY,
    ),
    Mistake(
        "a registration is requested once",
        "spice",
        rule="a consumer repeats requests that are not acknowledged (casting/spice/registrations.py)",
        put=silence(RetryRegistration),
        says="never complete",
        churn="joins=6,over_s=20",
        changes=LOSSY,
    ),
    Mistake(
        "the last version to arrive wins",
        "spice",
        rule="of two versions the newer is kept, in any order of arrival (casting/spice/registry.py)",
        put=last_arrival_wins,
        says="missing",
        churn="event=5:crash:3",
        changes={**SMALL, "changes": 20},
    ),
    Mistake(
        "items of a lost tract are dropped",
        "spice",
        rule="items in a tract lost to a stronger claim are offered to its owner (casting/spice/recovery.py)",
        put=lambda patch: patch.setattr(
            Spice, "on_tract_lost", lambda self, tract: self.drop(tract)
        ),
        says="would not find",
        churn="event=4..30:split:0+1+2+3+4+5+6+7+8+9,event=20:join:24,event=20.5:join:25,event=21:join:26,event=21.5:join:27",
        changes={**SMALL, "casts": 125},
        parameters={"hello_s": 3.0},
    ),
    Mistake(
        "closed parts are dropped in a handoff",
        "spice-unloaded",
        rule="closed parts move with their extents and are merged (casting/spice/registries.py)",
        put=forget_closed_parts,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "a part opens before its gathering is covered",
        "spice-unloaded",
        rule="a part opens when no record is left above it (casting/spice/containers.py)",
        put=open_at_once,
        says="missing",
        churn=CRASHES,
        changes=SMALL,
        parameters={"storage_limit": 4, "frequency_limit": 0.0},
        seed=3,
    ),
    Mistake(
        "roots are activated before the copy",
        "spice-unloaded",
        rule="a root is activated when the registry has been copied to it (casting/spice/replicas.py)",
        put=ready_at_once,
        says="would not find",
        churn=FLUX,
        changes=SMALL,
        parameters=LOW,
    ),
    Mistake(
        "new registrations are not pushed to replicas",
        "spice-unloaded",
        rule="a registration is pushed to every root before it is acknowledged (casting/spice/pushes.py)",
        put=only_the_original,
        says="missing",
        churn="event=60:join:24,event=61:join:25,event=62:join:26",
        changes={**SMALL, "casts": 150},
        parameters=LOW,
    ),
    Mistake(
        "receipts admit no unreachable member",
        "spice",
        rule="a receipt counts the members that did not answer (casting/spice/casts.py)",
        put=lambda patch: patch.setattr(spice_casts, "Settled", without_unreachable),
        says="misreported",
        churn="event=5..150:freeze:3",
        changes={"peers": 24, "casts": 200, "faults": Faults(), "strict": False, "network": "flat"},
    ),
)
