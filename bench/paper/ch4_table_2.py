"""Table 4.2: what A-Greedy spends its time on.

Columns as in the thesis, with nothing that limits profiling, and two as Penstock runs it: profiling may take
a share of the time, and fewer dropped tuples are profiled when it would take more.
"""

from statistics import median

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.filters import converged
from penstock.workloads.filters import FilterWorkload

COMPONENTS = ("tuple_processing", "profile_tuples", "profile_window", "view_update", "violations")
CASES = (
    (3, 0.01, False),
    (3, 0.05, False),
    (8, 0.01, False),
    (8, 0.05, False),
    (3, 0.01, True),
    (8, 0.01, True),
)


def measure(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for n, p, ours in CASES:
        workload = FilterWorkload(n=n, spread=0.05)
        times = [
            converged(workload, ("a-greedy",), scale, probability=p, ours=ours, rounds=8)[0]
            for _ in scale.seeds(3)
        ]
        case = f"n={n}, p={p}" + (", limited" if ours else "")
        shares = {c: median(float(t[c]) for t in times) for c in (*COMPONENTS, "overhead")}
        shares["profiled tuples"] = 100 * median(float(t["profiled_a_tuple"]) for t in times)
        found += [{"case": case, "component": c, "percent": s} for c, s in shares.items()]
    return found


def claims(rows: list[Row]) -> list[Claim]:
    share = {(r["case"], r["component"]): float(r["percent"]) for r in rows}
    overhead = {case: s for (case, component), s in share.items() if component == "overhead"}
    useful = {case: share[case, "tuple_processing"] + share[case, "profile_tuples"] for case in overhead}
    free, limited = overhead["n=8, p=0.01"], overhead["n=8, p=0.01, limited"]
    profiled = share["n=8, p=0.01, limited", "profiled tuples"]
    by_n = overhead["n=8, p=0.01"] > overhead["n=3, p=0.01"]
    by_p = overhead["n=8, p=0.05"] > overhead["n=8, p=0.01"]
    return [
        Claim(
            "overhead at most 3 % for n = 8 and p = 0.01 (thesis: 3.4 %)",
            f"{free:.1f} %",
            free <= 3.0,
        ),
        Claim(
            "the same as Penstock runs it, where the time for profiling is limited and p is the most",
            f"{limited:.1f} %, with {profiled:.2f} % of the tuples profiled",
            limited <= 3.0,
        ),
        Claim(
            "overhead grows with n and with p",
            ", ".join(f"{case}: {s:.1f} %" for case, s in overhead.items()),
            by_n and by_p,
        ),
        Claim(
            "more than 98 % is tuple processing and profile-tuple creation",
            ", ".join(f"{case}: {s:.1f} %" for case, s in useful.items()),
            min(useful.values()) > 98,
        ),
    ]


FIGURE = Figure(
    "table 4.2",
    "Run-time percentage breakdown for A-Greedy",
    "component",
    ("percent",),
    measure,
    claims,
    by="case",
    kind="bars",
)
