"""The earlier text's figure 11: the output rate of equation 14, by A's shares of rate and memory."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale

RATE, MEMORY, SELECTIVITY = 10.0, 100.0, 0.01
WHY = "the paper's own equation, evaluated; nothing of Penstock runs"
SHARES = tuple(i / 20 for i in range(21))


def output(x: float, memory_a: float) -> float:
    """Equation 14: results per second, A's share of the service rate and its rows in memory."""
    return SELECTIVITY * (x * RATE * MEMORY - (2 * x - 1) * RATE * memory_a)


def measure(scale: Scale) -> list[Row]:
    return [
        {"rows_of_A": a * MEMORY, "results_a_second": output(x, a * MEMORY), "share_of_A": x}
        for x in SHARES[::2]
        for a in SHARES
    ]


def claims(rows: list[Row]) -> list[Claim]:
    at = {(float(r["share_of_A"]), float(r["rows_of_A"])): float(r["results_a_second"]) for r in rows}
    corners = {(x, a): at[x, a] for x in (0.0, 1.0) for a in (0.0, MEMORY)}
    most, least = max(at.values()), min(at.values())
    maxima = sorted(where for where, value in at.items() if value == most)
    minima = sorted(where for where, value in at.items() if value == least)
    shown = ", ".join(f"share {x:g} and {a:g} rows: {v:g}" for (x, a), v in corners.items())
    return [
        Claim("there are two maxima and two minima", f"{len(maxima)} and {len(minima)}; {shown}", None, WHY),
        Claim("the maxima have the rate of one stream and the memory of the other", f"{maxima}", None, WHY),
        Claim("the maximum is σ μ M", f"{most:g}, σ μ M is {SELECTIVITY * RATE * MEMORY:g}", None, WHY),
    ]  # fmt: skip


FIGURE = Figure("kang early 11", "output rate by equation 14", "rows_of_A", ("results_a_second",), measure,
                claims, by="share_of_A",
                notes=("A formula; figure 7 (early 10) measures the strategies.",))  # fmt: skip
