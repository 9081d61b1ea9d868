"""explain of a running query: each engine's state, the orders it uses now, and the decisions behind them.

>>> print(explain_running(session.metrics()))                         # doctest: +SKIP
stage 1, partition 0: 36,210 rows and 4.1 MB of state
  mjoin C.pid = B.pid = O.pid: 96,400 in, 52,113 probes, 118 out
    O: C, B
      a-greedy: 1.02 filters per tuple, 2 changes of order (1 recalled), 0.9% of the time on adapting
      tuple 9,216: dropped by B 2%, C 99% -> C, B
    index on C by C.pid: hash, 43 ns per row, measured at 20,480 probes and 9,304 arrivals; next b+tree, 71 ns
    within memory 500 rows maximize results: age model, AGE
      expected recall 13.0%, measured recall 12.0%; rows kept: O 480, B 1
      results by age: O ▁▃█▅, B ▁
      given up: O 70, B 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from penstock.measurement import Kind, Measurements, Property, name_of, parent_of
from penstock.plan.settings import CURVE_BARS, SHOWN_DECISIONS, SHOWN_OVERHEAD_FROM_S, SHOWN_QUERIES
from penstock.streamon.advice import Length, held_back, in_ticks, late, skew, violated
from penstock.streamon.framework import PROCESSING

_BARS = "▁▂▃▄▅▆▇█"
_SHARES = (
    Property.EXPECTED_RECALL,
    Property.MEASURED_RECALL,
    Property.SAMPLING_FRACTION,
    Property.MEASURED_FRACTION,
)

NOTHING = "no engine of this query has finished a step yet"


def explain_running(found: Measurements, length: Length = in_ticks) -> str:
    """The engines of a query, as they were after their last step; ``length`` writes lengths of its time."""
    lines = [line for place, engine in found.by_engine().items() for line in _engine(*place[1:], engine)]
    lines += _inputs(found, length)
    lines += [f"waiting: {sentence}" for _, sentence in held_back(found).values()]
    lines += [f"late: {sentence}" for sentence in late(found, length).values()]
    lines += [f"constraint: {sentence}" for sentence in violated(found).values()]
    lines += [f"skew: {input.advice}" for input in skew(found) if input.advice]
    return "\n".join(lines) or NOTHING


def _engine(stage: int, partition: int, engine: Measurements) -> Iterator[str]:
    own = engine.of_kind(Kind.ENGINE)
    rows, size = own.value(Property.ROWS), own.value(Property.BYTES)
    alone = own.value(Property.UNSHARED_BYTES)
    shared = f", {alone / 1e6:,.1f} MB without sharing" if own.has(Property.UNSHARED_BYTES) else ""
    yield f"stage {stage}, partition {partition}: {rows:,.0f} rows and {size / 1e6:,.1f} MB of state{shared}"
    yield from _shared(engine)
    for entity in engine.of_kind(Kind.OPERATOR).by_entity():
        yield from _operator(entity, engine.parts(entity))


def _shared(engine: Measurements) -> Iterator[str]:
    """The synopses that several queries use: whose they are, and their bytes with and without sharing."""
    stores: dict[str, list[Measurements]] = {}
    for entity, own in engine.of_kind(Kind.OPERATOR).by_entity().items():
        if own.value(Property.UNSHARED_BYTES):
            window = own.text(Property.NAME) == "seq-window" and own.has(Property.STORE)
            stores.setdefault(own.text(Property.STORE) if window else entity, []).append(own)
    for several in stores.values():
        queries = dict.fromkeys(q for own in several for q in own.text(Property.QUERIES).split(", "))
        if len(queries) > 1:
            size = sum(own.value(Property.BYTES) for own in several) / 1e6
            alone = sum(own.value(Property.UNSHARED_BYTES) for own in several) / 1e6
            what = " and ".join(dict.fromkeys(own.text(Property.DESCRIPTION) for own in several))
            names = ", ".join(queries) if len(queries) <= SHOWN_QUERIES else f"{len(queries)} queries"
            kind = several[0].text(Property.NAME)
            yield f"  {kind} {what} of {names}: {size:,.2f} MB, {alone:,.2f} MB without sharing"


def _inputs(found: Measurements, length: Length) -> Iterator[str]:
    """What was seen of the order of each stream, beside what is declared; all partitions see the same."""
    engines = found.by_engine().items()
    query, first = next(((q, own) for (q, stage, _), own in engines if stage == 1), ("", Measurements()))
    for entity, own in first.of_kind(Kind.INPUT).by_entity().items():
        if not own.has(Property.DISORDER_BOUND):
            continue
        bound, how = own.value(Property.DISORDER_BOUND), own.text(Property.DISORDER_BOUND)
        most, allowed = (length(query, int(n)) for n in (own.value(Property.DISORDER), bound))
        seen = [f"out of order by up to {most}", f"{how} {allowed}"]
        if how == "arrival":
            seen = ["stamped on arrival"]
        if own.has(Property.BEHIND):
            behind = (own.value(Property.BEHIND), own.value(Property.MOST_BEHIND))
            now, ever = (length(query, int(n)) for n in behind)
            seen.append(f"{now} behind the furthest input, at most {ever}")
        yield f"input {name_of(entity)}: {'; '.join(seen)}"


def _operator(entity: str, found: Measurements) -> Iterator[str]:
    """An operator that adapts: its counts, orders and budget."""
    adaptive = found.of_kind(Kind.ADAPTIVE).by_entity()
    orders = {e: own for e, own in adaptive.items() if own.has(Property.ORDER)}
    indexes = [own for own in adaptive.values() if own.has(Property.METHOD)]
    if not orders and not indexes:
        return
    own, queues = found.entity(entity), found.of_kind(Kind.QUEUE)
    counts = [f"{queues.total(Property.ELEMENTS):,.0f} in", f"{own.value(Property.ELEMENTS):,.0f} out"]
    if own.has(Property.PROBES):
        counts.insert(1, f"{own.value(Property.PROBES):,.0f} probes")
    yield f"  {own.text(Property.NAME)} {own.text(Property.DESCRIPTION)}: {', '.join(counts)}"
    for path, order in orders.items():
        label = name_of(path) if parent_of(path) == entity else name_of(parent_of(path))
        yield f"    {label}: {', '.join(order.texts(Property.ORDER))}"
        yield from _why(order, found.parts(path).of_kind(Kind.DECISION))
        yield from _matching(adaptive.get(f"{parent_of(path)}/matches", Measurements()))
    yield from (f"    index on {_index(own)}" for own in indexes)
    for path, own in adaptive.items():
        if own.has(Property.INVALIDATION) and own.text(Property.INVALIDATION) == "lazy":
            yield f"    {name_of(parent_of(path))}: expired rows are freed when the window is probed"
    yield from _caches(found)
    yield from _budget(entity, found)
    yield from _constraints(found)


def _caches(found: Measurements) -> Iterator[str]:
    """The caches of a join: hits, size, what they save and cost; and the newest decisions."""
    for cache in found.of_kind(Kind.CACHE).by_entity().values():
        hits, misses = cache.value(Property.HITS), cache.value(Property.MISSES)
        rate = f"{hits / (hits + misses):.0%} hits, " if hits + misses else ""
        size = f"{cache.value(Property.ENTRIES):,.0f} keys, {cache.value(Property.BYTES) / 1e6:.1f} MB"
        worth = [cache.value(p) * 1e9 for p in (Property.BENEFIT, Property.MAINTENANCE)]
        saves = f"; saves {worth[0]:.0f} ns and costs {worth[1]:.0f} ns per tuple" if any(worth) else ""
        yield f"    cache {cache.text(Property.DESCRIPTION)}: {rate}{size}{saves}"
    for path, chosen in found.of_kind(Kind.ADAPTIVE).by_entity().items():
        if chosen.has(Property.STATE):
            states = chosen.values(Property.STATE)
            yield f"    a-caching: {', '.join(f'{n:.0f} {state}' for state, n in states.items() if n)}"
            yield from _cache_decisions(found.parts(path).of_kind(Kind.DECISION))
            yield from _what_if(chosen)


def _cache_decisions(decisions: Measurements) -> Iterator[str]:
    for made in list(decisions.by_entity().values())[-SHOWN_DECISIONS:]:
        at, plan = made.value(Property.DECIDED_AT), made.text(Property.DECIDED_AT)
        why = made.text(Property.REASON) or f"expected to save {made.value(Property.GAIN):.0%}"
        yield f"      tuple {at:,.0f}: caches {plan}; {why}"


def _index(own: Measurements) -> str:
    """An index's method and its cost, and those of the next best, for the rows that were counted."""
    probes, updates = own.value(Property.PROBES), own.value(Property.UPDATES)
    method, costs = own.text(Property.METHOD), own.values(Property.COST)
    text = f"{own.text(Property.DESCRIPTION)}: {method}"
    if not costs:
        return f"{text}; too few rows for costs"
    ns = {name: cost / (probes + updates) * 1e9 for name, cost in costs.items()}
    others = [f"next {name}, {ns[name]:.0f} ns" for name in sorted(ns, key=ns.__getitem__) if name != method]
    counted = f"measured at {probes:,.0f} probes and {updates:,.0f} arrivals"
    return "; ".join([f"{text}, {ns[method]:.0f} ns per row, {counted}", *others[:1]])


def _why(order: Measurements, decisions: Measurements) -> Iterator[str]:
    tuples = order.value(Property.TUPLES)
    if not tuples:
        return
    recalled, changes = order.value(Property.RECALLED), order.value(Property.CHANGES)
    changed = f"{changes:.0f} change{'s' * (changes != 1)} of order"
    from_log = f" ({recalled:.0f} recalled)" if recalled else ""
    yield (
        f"      {order.text(Property.ALGORITHM)}: {order.value(Property.EVALUATIONS) / tuples:.2f} filters "
        f"per tuple, {changed}{from_log}, {_adapting(order)}"
    )
    for made in list(decisions.by_entity().values())[-SHOWN_DECISIONS:]:
        drops = ", ".join(f"{name} {share:.0%}" for name, share in made.values(Property.STATISTIC).items())
        plan = made.text(Property.DECIDED_AT) + (" (recalled)" if made.value(Property.FROM_LOG) else "")
        yield f"      tuple {made.value(Property.DECIDED_AT):,.0f}: dropped by {drops} -> {plan}"
    yield from _what_if(order)


def _matching(found: Measurements) -> Iterator[str]:
    """The filters that probe for a first match before all matches are taken, and since when."""
    if found.has(Property.FIRST_MATCH):
        asked, changes = ", ".join(found.texts(Property.FIRST_MATCH)), found.value(Property.CHANGES)
        yield f"      first matches of {asked}, then all; {changes:.0f} change{'s' * (changes != 1)} of that"


def _what_if(chosen: Measurements) -> Iterator[str]:
    """What adapting gained over the best single plan, and statistics that are transient (thesis 7.1)."""
    single, adapted = chosen.value(Property.SINGLE_PLAN), chosen.value(Property.ADAPTED)
    if chosen.value(Property.CHANGES) > 1 and single:
        kept = chosen.text(Property.SINGLE_PLAN)
        yield f"      since the log began: adapting saved {1 - adapted / single:.0%} over always {kept}"
    if transient := chosen.texts(Property.TRANSIENT):
        yield f"      change and soon come back: {', '.join(transient)}"


def _adapting(order: Measurements) -> str:
    seconds = order.total(Property.CPU_SECONDS)
    if seconds < SHOWN_OVERHEAD_FROM_S:
        return f"too early to say what adapting takes ({seconds:.2f} s so far)"
    processing = order.values(Property.CPU_SECONDS)[PROCESSING]
    return f"{1 - processing / seconds:.1%} of the time on adapting"


def _budget(entity: str, found: Measurements) -> Iterator[str]:
    """A budget: the model in use, expected and measured recall, rows kept and rows shed."""
    budget = found.entity(f"{entity}/budget")
    if not budget:
        return
    how = [f"{budget.text(Property.MODEL)} model"] if budget.has(Property.MODEL) else []
    yield f"    within {budget.text(Property.BUDGET)}: {', '.join([*how, *budget.texts(Property.POLICY)])}"
    windows = found.of_kind(Kind.WINDOW)
    shares = [f"{p.replace('_', ' ')} {budget.value(p):.1%}" for p in _SHARES if budget.has(p)]
    yield f"      {', '.join(shares)}; rows kept: {_listed(windows.by_name(Property.ROWS))}"
    if windows.has(Property.RESULTS_BY_AGE):
        curves = windows.of(Property.RESULTS_BY_AGE).by_entity().items()
        drawn = [f"{name_of(entity)} {_drawn([m.value for m in curve])}" for entity, curve in curves]
        yield f"      results by age: {', '.join(drawn)}"
    lost: dict[str, dict[str, float]] = {}
    for m in windows.of(Property.SHED):
        lost.setdefault(m.text, {})[name_of(m.entity)] = m.value
    yield from (f"      {cause}: {_listed(rows)}" for cause, rows in lost.items() if any(rows.values()))


def _constraints(found: Measurements) -> Iterator[str]:
    """Of a join with constraints: the rows of each window by component, and those dropped early."""
    for entity, own in found.of_kind(Kind.WINDOW).by_entity().items():
        if own.has(Property.COMPONENT):
            dropped = [f"{why} {n:,.0f}" for why, n in own.values(Property.DROPPED).items()]
            kept = _listed(own.values(Property.COMPONENT))
            if own.has(Property.ARCHIVED):
                kept += f"; on disk {own.value(Property.ARCHIVED):,.0f}"
            yield f"    {name_of(entity)} by component: {kept}; dropped: {', '.join(dropped)}"
    adaptive = found.of_kind(Kind.ADAPTIVE).by_entity()
    for own in (own for own in adaptive.values() if own.has(Property.ADHERENCE)):
        yield f"    {own.text(Property.DESCRIPTION)}: {_adherence(own)}"
    for path, own in adaptive.items():
        if own.has(Property.RETURNED):
            yield f"    came back from disk: {own.value(Property.RETURNED):,.0f} rows"
        if own.has(Property.MONITORED_RESULTS) and own.has(Property.COLLECTIONS):
            yield f"    {_missed(own)}"
        if own.has(Property.COLLECTIONS):
            decisions = found.parts(path).of_kind(Kind.DECISION).by_entity().values()
            for made in list(decisions)[-SHOWN_DECISIONS:]:
                at, plan = made.value(Property.DECIDED_AT), made.text(Property.DECIDED_AT)
                yield f"      row {at:,.0f}: used {plan}"


def _adherence(own: Measurements) -> str:
    """The k of a constraint, or why it is not used."""
    k, unit = own.value(Property.ADHERENCE), own.text(Property.ADHERENCE)
    grew = own.value(Property.INCREASES)
    times = f", exceeded {grew:,.0f} time{'s' * (grew != 1)} so far" if grew else ""
    if k >= 0:
        return f"k = {k:,.0f} {unit}{times}"
    seen = f"{own.value(Property.OBSERVED):,.0f} {unit} in {own.value(Property.EVIDENCE):,.0f} rows of late"
    return f"not used, up to {seen}{times}"


def _missed(own: Measurements) -> str:
    """The estimate of what was missed."""
    rows, results = own.value(Property.MONITORED_ROWS), own.value(Property.MONITORED_RESULTS)
    sample = f"of {results:,.0f} results of the sample, which holds {rows:,.0f} rows"
    if not own.has(Property.MISSED_SHARE):
        return f"missed results: nothing to estimate from yet ({rows:,.0f} rows in the sample)"
    low, high = own.value(Property.MISSED_SHARE_LOW), own.value(Property.MISSED_SHARE_HIGH)
    about = f"about {own.value(Property.MISSED_SHARE):.2%} ({low:.2%} to {high:.2%} with 95 % confidence)"
    return f"missed results: {about}, from the share {sample}"


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {v:,.0f}" for label, v in values.items())


def _drawn(curve: Sequence[float]) -> str:
    """A curve as a line of bars, each the mean of as many values."""
    each = -(-len(curve) // CURVE_BARS) or 1
    means = [fmean(curve[i : i + each]) for i in range(0, len(curve), each)]
    top = max(means, default=0.0) or 1.0
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in means)
