"""Figure 4.16: where the time of figure 4.15 goes."""

from bench.paper.figure import Claim, Figure, Row, series, shown
from bench.paper.filters import ADAPTIVE
from bench.paper.overhead import by_filters


def claims(rows: list[Row]) -> list[Claim]:
    last = max(float(r["n"]) for r in rows)
    adapting = {a: series(rows, "n", "overhead", a) for a in ADAPTIVE}
    same = {a: series(rows, "n", "filters_a_tuple", a)[last] for a in ("optimal", *ADAPTIVE)}
    spread = max(same[a] / same["optimal"] for a in ("a-greedy", "sweep", "local-swaps"))
    return [
        Claim(
            "the gap is A-Greedy's overhead: it grows with n and is above that of Sweep and LocalSwaps",
            f"percent, A-Greedy: {shown(adapting['a-greedy'], 1)}; at n = {last:g} "
            + ", ".join(f"{a} {adapting[a][last]:.1f}" for a in ADAPTIVE[1:]),
            adapting["a-greedy"][last] > adapting["a-greedy"][min(adapting["a-greedy"])]
            and adapting["a-greedy"][last] > max(adapting["sweep"][last], adapting["local-swaps"][last]),
        ),
        Claim(
            "Optimal, A-Greedy, Sweep and LocalSwaps spend alike on tuples: they converge to similar orders",
            "filters a tuple: " + ", ".join(f"{a} {f:.2f}" for a, f in same.items()),
            spread < 1.1,
        ),
    ]


FIGURE = Figure(
    "4.16",
    "Run-time breakdown for figure 4.15",
    "n",
    ("processing_micros", "adapting_micros"),
    by_filters,
    claims,
)
