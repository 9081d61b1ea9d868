"""Table 4.2: what A-Greedy spends its time on.

Columns as in the thesis, with nothing that limits profiling; one with filters of a hundred probes, since one
probe takes less than it takes to hand a tuple on; and two as Penstock runs it: profiling may take a share of
the time, and fewer dropped tuples are profiled when it would take more.
"""

from statistics import median

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.filters import converged
from penstock.workloads.filters import FilterWorkload

COMPONENTS = ("tuple_processing", "profile_tuples", "profile_window", "view_update", "violations")
CASES = (
    (3, 0.01, 1, False),
    (3, 0.05, 1, False),
    (8, 0.01, 1, False),
    (8, 0.05, 1, False),
    (8, 0.01, 100, False),
    (3, 0.01, 1, True),
    (8, 0.01, 1, True),
)


def measure(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for n, p, probes, ours in CASES:
        workload = FilterWorkload(n=n, spread=0.05, costs=(probes,) * n)
        times = [
            converged(workload, ("a-greedy",), scale, probability=p, ours=ours, rounds=8)[0]
            for _ in scale.seeds(3)
        ]
        case = f"n={n}, p={p}" + (f", {probes} probes" if probes > 1 else "") + (", limited" if ours else "")
        shares = {c: median(float(t[c]) for t in times) for c in (*COMPONENTS, "overhead")}
        shares["profiled tuples"] = 100 * median(float(t["profiled_a_tuple"]) for t in times)
        more = (float(t["filters_with_profiling"]) / float(t["filters_a_tuple"]) - 1 for t in times)
        shares["filters for profiling"] = 100 * median(more)
        found += [{"case": case, "component": c, "percent": s} for c, s in shares.items()]
    return found


def claims(rows: list[Row]) -> list[Claim]:
    share = {(r["case"], r["component"]): float(r["percent"]) for r in rows}
    overhead = {case: s for (case, component), s in share.items() if component == "overhead"}
    useful = {case: share[case, "tuple_processing"] + share[case, "profile_tuples"] for case in overhead}
    free, limited = overhead["n=8, p=0.01"], overhead["n=8, p=0.01, limited"]
    dear = overhead["n=8, p=0.01, 100 probes"]
    alone = share["n=8, p=0.01, 100 probes", "filters for profiling"]
    profiled = share["n=8, p=0.01, limited", "profiled tuples"]
    by_n = overhead["n=8, p=0.01"] > overhead["n=3, p=0.01"]
    by_p = overhead["n=8, p=0.05"] > overhead["n=8, p=0.01"]
    return [
        Claim(
            "overhead at most 3 % for n = 8 and p = 0.01 (thesis: 3.4 %)",
            f"{free:.1f} %; {dear:.1f} % with filters of 100 probes, {alone:.1f} % more of them evaluated",
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
