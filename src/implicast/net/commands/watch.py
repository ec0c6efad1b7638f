"""`implicast watch`: a terminal view of nodes, the progress of casts, and send queues."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Header, Static

from implicast.net.commands.snapshot import NetworkSnapshot, StatusRow

EVERY_S = 1.0
BAR = 10


class WatchApp(App[None]):
    """Takes a snapshot every `every_s` seconds and shows it."""

    TITLE = "implicast"
    CSS = """
    #left { width: 3fr; } #right { width: 4fr; }
    .caption { padding: 0 1; text-style: bold; color: $accent; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("p", "pause", "pause"),
        Binding("tab", "focus_next", "next table"),
    ]

    def __init__(
        self,
        take_snapshot: Callable[[NetworkSnapshot | None], NetworkSnapshot],
        every_s: float = EVERY_S,
    ) -> None:
        super().__init__()
        self._take_snapshot, self._every_s = take_snapshot, every_s
        self.snapshot: NetworkSnapshot | None = None
        self.paused = False

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal():
            with Vertical(id="left"):
                yield Static("nodes", classes="caption")
                yield DataTable(id="nodes", cursor_type="row", zebra_stripes=True)
            with Vertical(id="right"):
                yield Static("casts, newest first", classes="caption")
                yield DataTable(id="casts", cursor_type="row")
                yield Static("connections", id="whose", classes="caption")
                yield DataTable(id="peers", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        self._table("nodes").add_columns(
            "node", "state", "links", "inbox", "open", "sent/s", "queued", "lost"
        )
        self._table("casts").add_columns("made", "by", "to", "notified", "")
        self._table("peers").add_columns("name", "address", "queued")
        self.set_interval(self._every_s, self.refresh_snapshot)
        self.refresh_snapshot()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.sub_title = "paused" if self.paused else ""

    def refresh_snapshot(self) -> None:
        """Take a snapshot in a thread, so that a silent node does not block the view."""
        if not self.paused:
            self.run_worker(self._ask, thread=True, exclusive=True, group="look")

    def _ask(self) -> None:
        snapshot = self._take_snapshot(self.snapshot)
        if self.is_running:
            self.call_from_thread(self.show, snapshot)

    def show(self, snapshot: NetworkSnapshot) -> None:
        if self._is_closed():
            return
        self.snapshot = snapshot
        up = sum(bool(row["up"]) for row in snapshot.nodes)
        if not self.paused:
            self.sub_title = f"{up} of {len(snapshot.nodes)} nodes answer"
        _fill(self._table("nodes"), [(row["node"], node_cells(row)) for row in snapshot.nodes])
        _fill(self._table("casts"), [(_cast_key(row), cast_cells(row)) for row in snapshot.casts])
        self._show_peers()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if event.data_table.id == "nodes":
            self._show_peers()

    def _is_closed(self) -> bool:
        """True if the view is closed. Events may still arrive afterwards."""
        return not all(self.query(f"#{name}") for name in ("nodes", "casts", "peers", "whose"))

    def _show_peers(self) -> None:
        if self.snapshot is None or self._is_closed():
            return
        nodes = self._table("nodes")
        if not nodes.row_count:
            return
        chosen = str(nodes.get_row_at(nodes.cursor_row)[0])
        rows = self.snapshot.peers.get(chosen, [])
        self.query_one("#whose", Static).update(f"connections of {chosen}: {len(rows)}")
        _fill(
            self._table("peers"),
            [
                (row["name"], (row["name"][:12], row["address"], _size(row.get("queued", 0))))
                for row in rows
            ],
        )

    def _table(self, name: str) -> "DataTable[Any]":
        return self.query_one(f"#{name}", DataTable)


def _fill(table: "DataTable[Any]", rows: list[tuple[str, tuple[Any, ...]]]) -> None:
    """Replace the rows of a table; the cursor stays where it is."""
    cursor = table.cursor_row
    table.clear()
    for key, cells in rows:
        table.add_row(*cells, key=key)
    if rows:
        table.move_cursor(row=min(cursor, len(rows) - 1), animate=False)


def node_cells(row: StatusRow) -> tuple[Any, ...]:
    """The cells of a node's row."""
    if not row["up"]:
        return (row["node"], Text("down", style="bold red"), "", "", "", "", "", "")
    counters = row["counters"]
    lost = counters["dropped_queue"] + counters["dropped_unreachable"]
    return (
        row["node"],
        _state(row),
        row["connections"],
        row["inbox_open"],
        row["outbox_open"],
        f"{row['sent_per_s']:.1f}",
        _size(row["queued"]),
        lost or "",
    )


def _state(row: StatusRow) -> Text:
    if row["disk_full"]:
        return Text("disk full", style="bold red")
    if row["role"] != "member":
        return Text(row["role"], style="cyan")
    if not row["joined"]:
        return Text("joining", style="yellow")
    return Text("in", style="green") if row["registered"] else Text("registering", style="yellow")


def cast_cells(row: StatusRow) -> tuple[Any, ...]:
    """The cells of a cast's row, with a progress bar."""
    made = time.strftime("%H:%M:%S", time.localtime(row["made_us"] / 1e6))
    if "notified" not in row:
        return (made, row["node"], _short(row["target"]), "", Text("running", style="yellow"))
    expected = row["expected"]
    filled = round(BAR * (row["notified"] + row["declined"]) / expected) if expected else BAR
    bar = Text(
        "█" * filled + "░" * (BAR - filled),
        style="red" if row["unreachable"] or row["uncertain"] else "green",
    )
    progress = f"{row['notified']} of {expected}" if expected else "no member matched"
    more = [
        f"{row[each]} {each}"
        for each in ("open", "declined", "unreachable", "uncertain")
        if row[each]
    ]
    return (
        made,
        row["node"],
        _short(row["target"]),
        Text.assemble(bar, " ", progress),
        ", ".join(more),
    )


def _cast_key(row: StatusRow) -> str:
    return f"{row['node']}.{row['life']}.{row['serial']}"


def _short(text: str, most: int = 36) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _size(count: int) -> str:
    return f"{count:,} B" if count else ""
