import io

from rich.console import Console

from penstock.cli.view import Lines, LivePanel, Progress, State, display, panel, state_of, summary
from penstock.measurement import Kind, Measurements, Property, Reading, curve, measured, order, under


def engine(partition, rows, size, orders, drops=()):
    """What an engine with a join publishes: the order of each stream, and the drops behind the last of C."""
    own = [Reading(Property.ROWS, rows), Reading(Property.BYTES, size)]
    readings = [*under("engine", Kind.ENGINE, own)]
    for stream, steps in orders.items():
        readings += under(f"mjoin.3/{stream}/order", Kind.ADAPTIVE, order(steps))
    for number, shares in enumerate(drops):
        why = curve(Property.STATISTIC, shares.values(), shares)
        readings += under(f"mjoin.3/C/order/{number}", Kind.DECISION, why)
    return measured(readings, "run", 1, partition)


FOUND = Measurements(
    [
        *engine(0, 10, 1000, {"C": "OB", "B": "CO"}, [{"B": 0.8, "O": 0.2}, {"B": 0.1, "O": 0.9}]),
        *engine(1, 5, 500, {"C": "BO", "B": "CO"}),
        *engine(2, 1, 8, {}),
    ]
)


def running():
    progress = Progress(seconds=3.0, results=7, total=1500, routing="direct")
    progress.add_batch(24_000, 800)
    progress.see(state_of(FOUND))
    return progress


def test_state_adds_partitions_and_keeps_different_orders():
    state = state_of(FOUND)
    assert (state.rows, state.bytes) == (16, 1508)
    assert state.orders == {"C": ("B → O", "O → B"), "B": ("C → O",)}
    assert state.reasons == {"C": "B 10%, O 90%"}


def test_order_changes_are_counted_and_the_peak_kept():
    progress = running()
    progress.see(State(2, 20, {"C": ("B → O",), "B": ("C → O",)}))
    assert progress.order_changes == 1
    assert progress.peak.rows == 16
    assert "changed 1 times" in summary(progress)


def test_panel_shows_everything():
    console = Console(file=io.StringIO(), width=120)
    console.print(panel("SELECT SUM(C.size) FROM C", running(), 30))
    shown = console.file.getvalue()
    for part in (
        "SELECT SUM(C.size)",
        "1,500",
        "30,000",
        "24,000",
        "800 ms",
        "16 rows",
        "C → O",
        "direct",
        "O 90%",
    ):
        assert part in shown


def test_lines_without_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=False)
    with display(console, "SELECT 1", 30) as lines:
        assert isinstance(lines, Lines)
        lines.show(running())
        lines.show(running())
    shown = console.file.getvalue().splitlines()
    assert shown[0] == "SELECT 1" and len(shown) == 2 and "total 1,500" in shown[1]


def test_a_panel_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with display(console, "SELECT 1", 30) as live:
        assert isinstance(live, LivePanel)
        live.show(running())
    assert "1,500" in console.file.getvalue()


def test_a_summary_of_nothing():
    assert "no total yet, 0 batches;" in summary(Progress())
