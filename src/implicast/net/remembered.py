"""The casts that a node remembers on disk, so that it takes none twice after a restart.

Each notice in the inbox stands for a cast until the time in its row. When old notices are deleted,
the ids of casts that have to be remembered longer stay in the table `remembered`.
"""

from implicast.net.store import NOTICES_MAX, Store
from implicast.peer.expiry import DEFAULT_MEMORY_US
from implicast.peer.memory import WORD_SERIAL_BITS, SeenBlock

UNTIL = f"coalesce(until_us, arrived_us + {DEFAULT_MEMORY_US})"


def seen_blocks(store: Store, now_us: int) -> tuple[SeenBlock, ...]:
    """The casts that are still remembered, as blocks of bits for the peer's memory."""
    blocks: dict[tuple[bytes, int, int], tuple[int, int]] = {}
    rows = store.execute_now(
        f"select publisher, life, serial, {UNTIL} from notices where {UNTIL} >= ? "
        "union all select publisher, life, serial, until_us from remembered where until_us >= ?",
        now_us,
        now_us,
    )
    for publisher, incarnation, serial, until_us in rows:
        block = (bytes(publisher), incarnation, serial >> WORD_SERIAL_BITS)
        bits, last_us = blocks.get(block, (0, 0))
        bit = 1 << (serial & (1 << WORD_SERIAL_BITS) - 1)
        blocks[block] = bits | bit, max(last_us, until_us)
    return tuple(SeenBlock(*block, *found) for block, found in blocks.items())


def prune(store: Store, now_us: int, keep: int = NOTICES_MAX) -> None:
    """Delete the oldest done notices beyond `keep`. Notices that are not done stay. The ids of
    deleted casts stay until their time has passed.
    """
    oldest = (
        "from notices where done_us is not null "
        "order by arrived_us limit max(0, (select count(*) from notices) - ?)"
    )
    store.write(
        "insert or ignore into remembered select publisher, life, serial, until_us from "
        f"(select publisher, life, serial, {UNTIL} as until_us {oldest}) where until_us >= ?",
        (keep, now_us),
    )
    store.write(
        "delete from notices where (publisher, life, serial) in ("
        f"select publisher, life, serial {oldest})",
        (keep,),
    )
    store.write("delete from remembered where until_us < ?", (now_us,))
