"""The inner loops of profiling: samples, profile tuples, the matrix view, the Greedy Invariant."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from penstock.compiled import njit

Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
NEVER = float(1 << 62)


@njit
def gap(draw: Int64s, scale: float) -> int:
    """Dropped tuples to skip before the next profiled one, geometrically distributed.

    ``draw[1]`` is the state of the random numbers; ``scale`` is ``gap_scale`` of the share that is profiled.
    """
    x = np.uint64(draw[1])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    draw[1] = np.int64(x)
    uniform = (float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return int(min(math.log(uniform) * scale, NEVER))


def gap_scale(share: float) -> float:
    """The factor that makes a gap of the logarithm of a uniform number; without end for a share of 0."""
    if share <= 0.0:
        return -1e30
    return 0.0 if share >= 1.0 else 1 / math.log1p(-share)


@njit
def split(
    rows: Int64s,
    passes: npt.NDArray[np.bool_],
    position: int,
    draw: Int64s,
    scale: float,
    kept: Int64s,
    sampled: Int64s,
) -> int:
    """Put rows that pass into ``kept`` and return their number; sample a share of the others.

    ``sampled`` gets the row and the position. ``draw[0]`` dropped tuples are yet to be skipped, and
    ``draw[2]`` have been sampled: sampling goes on across calls.
    """
    k = np.int64(0)
    skip, s = draw[0], draw[2]
    for i in range(len(rows)):
        kept[k] = rows[i]
        k += np.int64(passes[i])
        skip -= np.int64(not passes[i])
        if skip < 0:
            sampled[s, 0] = rows[i]
            sampled[s, 1] = position
            s += 1
            skip = gap(draw, scale)
    draw[0], draw[2] = skip, s
    return int(k)


@njit
def kept(rows: Int64s, passes: npt.NDArray[np.bool_]) -> Int64s:
    """Rows that pass: as NumPy's indexing, without a branch for each."""
    found = np.empty(len(rows), np.int64)
    k = np.int64(0)
    for i in range(len(rows)):
        found[k] = rows[i]
        k += np.int64(passes[i])
    return found[:k]


@njit
def by_position(sampled: Int64s, rows: Int64s, stops: Int64s) -> None:
    """Group sampled rows by position; those of position p are ``stops[p] : stops[p + 1]``."""
    for s in range(len(sampled)):
        stops[sampled[s, 1] + 1] += 1
    for p in range(1, len(stops)):
        stops[p] += stops[p - 1]
    at = stops.copy()
    for s in range(len(sampled)):
        p = sampled[s, 1]
        rows[at[p]] = sampled[s, 0]
        at[p] += 1


@njit
def first_drop(order: Int64s, profile: Bits, t: int) -> int:
    """The position of the first filter that drops a profile tuple; the number of filters if none does."""
    first = 0
    while first < len(order) and profile[t, order[first]] == 0:
        first += 1
    return first


@njit
def first_drops(order: Int64s, profile: Bits, tuples: Int64s, weights: Int64s) -> None:
    """Count the profile tuples first dropped at each position, and their weights; last, those of none."""
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        tuples[first] += 1
        if first < len(order):
            weights[first] += profile[t, order[first]]


@njit
def expected(
    order: Int64s,
    profile: Bits,
    passing: float,
    shares: npt.NDArray[np.float64],
    seen: npt.NDArray[np.float64],
) -> None:
    """The selectivity of the filter at each position, and the tuples it was seen on.

    Profile tuples are dropped ones; together with the share that passes all filters they stand for more.
    """
    tuples, weights = np.zeros(len(order) + 1, np.int64), np.zeros(len(order) + 1, np.int64)
    first_drops(order, profile, tuples, weights)
    with_passing = 1 / max(1 - passing, 1e-9)
    left, came = weights[:-1].sum() * with_passing, tuples[:-1].sum() * with_passing
    for p in range(len(order)):
        shares[p] = 1 - weights[p] / left if left > 0 else 0.5
        seen[p] = came
        left -= weights[p]
        came -= tuples[p]


@njit
def cost(order: Int64s, profile: Bits, times: npt.NDArray[np.float64]) -> float:
    """The cost of evaluating filters on profile tuples, each until it is dropped."""
    n = len(order)
    until = np.cumsum(times[order])
    total = 0.0
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        total += until[first] * profile[t, order[first]] if first < n else until[n - 1]
    return total


@njit
def gain(before: Int64s, after: Int64s, profile: Bits, times: npt.NDArray[np.float64]) -> float:
    """The share of the cost of one order that another saves."""
    return 1.0 - cost(after, profile, times) / max(cost(before, profile, times), 1e-300)


@njit
def shares(order: Int64s, profile: Bits, found: npt.NDArray[np.float64]) -> None:
    """The share of the profile tuples that each filter drops, by weight."""
    total = 0.0
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        if first < len(order):
            total += profile[t, order[first]]
        for f in range(len(order)):
            found[f] += profile[t, f]
    for f in range(len(order)):
        found[f] /= max(total, 1.0)


@njit
def nearest(known: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> tuple[int, float]:
    """The row whose largest difference is the least, and that difference."""
    best, least = -1, np.inf
    for k in range(len(known)):
        apart = 0.0
        for f in range(len(wanted)):
            apart = max(apart, abs(known[k, f] - wanted[f]))
        if apart < least:
            best, least = k, apart
    return best, least


@njit
def count(view: Int64s, order: Int64s, profile: Bits, by: int) -> None:
    """Figure 4.5: add profile tuples to the matrix view (or take them out of it, ``by`` -1).

    A tuple counts in every row of the view down to its first drop: tuples with the same first drop are
    summed up first, each bit once.
    """
    n = len(order)
    drops = np.zeros((n + 1, profile.shape[1]), np.int64)
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        for f in range(profile.shape[1]):
            drops[first, f] += profile[t, f]
    for c in range(n):
        below = np.int64(0)
        for r in range(c, -1, -1):
            below += drops[r, order[c]]
            view[r, c] += by * below


@njit
def violated(view: Int64s, order: Int64s, times: npt.NDArray[np.float64], alpha: float) -> int:
    """Figure 4.6 with equation 4.4: the first position that violates the Greedy Invariant, -1 if none."""
    n = len(order)
    for i in range(n - 1):
        here = view[i, i] / times[order[i]]
        for j in range(i + 1, n):
            if here < alpha * view[i, j] / times[order[j]]:
                return i
    return -1


@njit
def seen_by_stage(order: Int64s, profile: Bits, stage: int) -> Bits:
    """The profile tuples that one of the filters up to a position drops (4.5)."""
    found = np.empty_like(profile)
    k = 0
    for t in range(len(profile)):
        if first_drop(order[: stage + 1], profile, t) <= stage:
            found[k] = profile[t]
            k += 1
    return found[:k]


@njit
def moves_to(order: Int64s, profile: Bits, times: npt.NDArray[np.float64], alpha: float, stage: int) -> int:
    """The first position before ``stage`` whose filter drops less for its time than the one there would
    (4.5); -1 if none does.
    """
    here, there = np.zeros(len(order) + 1, np.int64), np.zeros(len(order) + 1, np.int64)
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        here[first] += 1
        there[first] += profile[t, order[stage]] != 0
    left = there.sum()
    for i in range(stage):
        if here[i] / times[order[i]] < alpha * left / times[order[stage]]:
            return i
        left -= there[i]
    return -1


@njit
def swaps(order: Int64s, profile: Bits, times: npt.NDArray[np.float64], alpha: float) -> int:
    """The first position whose filter drops less for its time than the next one would there (4.6); or -1.

    Tuples dropped at a position were profiled by the next filter, too; those dropped by that one passed here.
    """
    n = len(order)
    here, next_too = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for t in range(len(profile)):
        first = first_drop(order, profile, t)
        here[first] += 1
        if first < n - 1:
            next_too[first] += profile[t, order[first + 1]] != 0
    for i in range(n - 1):
        if here[i] / times[order[i]] < alpha * (next_too[i] + here[i + 1]) / times[order[i + 1]]:
            return i
    return -1


@njit
def correct(
    view: Int64s, order: Int64s, profile: Bits, times: npt.NDArray[np.float64], position: int
) -> None:
    """Figure 4.7: choose anew from ``position`` on, as far as the choice disturbs what follows.

    ``times`` is by filter. Afterwards ``view`` has the rows of the new order.
    """
    n = len(order)
    # The tuples that get to position r; fewer at each.
    left = np.empty(len(profile), np.int64)
    m = 0
    for t in range(len(profile)):
        left[m] = t
        m += first_drop(order, profile, t) >= position
    last = position
    r = position
    drops = np.zeros(profile.shape[1], np.int64)
    while r <= last:
        drops[:] = 0
        for i in range(m):
            for f in range(len(drops)):
                drops[f] += profile[left[i], f]
        best = r
        for c in range(r + 1, n):
            if drops[order[c]] / times[order[c]] > drops[order[best]] / times[order[best]]:
                best = c
        last = max(last, best)
        chosen = order[best]
        order[r + 1 : best + 1] = order[r:best].copy()
        order[r] = chosen
        k = 0
        for i in range(m):
            t = left[i]
            left[k] = t
            k += profile[t, chosen] == 0
        m = k
        r += 1
    view[:] = 0
    count(view, order, profile, 1)


@njit
def mend(
    view: Int64s,
    order: Int64s,
    profile: Bits,
    times: npt.NDArray[np.float64],
    alpha: float,
    position: int,
) -> int:
    """Correct violations, at ``position`` first; returns how many.

    Several tuples at once may violate the invariant at several positions; each correction ends behind the
    last.
    """
    corrections = 0
    while position >= 0:
        correct(view, order, profile, times, position)
        corrections += 1
        position = violated(view, order, times, alpha)
    return corrections


@njit
def profile_tuples(drops: Bits, order: Int64s, stops: Int64s, weight: int, profile: Bits) -> None:
    """Turn bits by filter into profile tuples, one per row, with the bit of the filter that dropped it.

    Tuples that the same position dropped are neighbours: those of p are ``stops[p] : stops[p + 1]``. In a
    profile window those in front are the first to leave, so steps of the golden section spread them evenly.
    """
    n, tuples = drops.shape
    step = int(0.6180339887 * tuples) | 1
    while _divisor(step, tuples) > 1:
        step += 2
    at = 0
    for p in range(n):
        for t in range(stops[p], stops[p + 1]):
            for f in range(n):
                profile[at, f] = drops[f, t]
            profile[at, order[p]] = weight
            at = (at + step) % tuples


@njit
def burst(
    passes: npt.NDArray[np.bool_],
    filters: Int64s,
    times: npt.NDArray[np.float64],
    profile: Bits,
    first: int,
    passing: npt.NDArray[np.bool_],
) -> int:
    """Profile tuples, from ``first`` on, of those that some filter drops; how many.

    A row of ``passes`` is for a filter. After them comes a tuple for each filter that it alone drops. Says
    which are ``passing`` all filters, and puts the ``filters`` into the order that drops the most for its
    time.
    """
    k = first
    for t in range(passes.shape[1]):
        passing[t] = True
        for i in range(len(filters)):
            profile[k, filters[i]] = not passes[i, t]
            passing[t] &= passes[i, t]
        k += not passing[t]
    profile[k] = 0
    for i in range(len(filters)):
        profile[k + i, filters[i]] = 1
    unused = np.zeros((len(filters), len(filters)), np.int64)
    correct(unused, filters, profile[first : k + len(filters)], times, 0)
    return k - first


@njit
def weigh(profile: Bits, stops: Int64s, stands_for: npt.NDArray[np.float64], heaviest: int) -> int:
    """Let profile tuples that stand for more weigh more; what those of the first part weigh.

    Part p is ``stops[p] : stops[p + 1]``.
    """
    least = stands_for.min()
    weight = 1
    for p in range(len(stands_for) - 1, -1, -1):
        weight = min(round(stands_for[p] / least), heaviest)
        for t in range(stops[p], stops[p + 1]):
            for f in range(profile.shape[1]):
                profile[t, f] *= weight
    return weight


@njit
def _divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a
