"""Sums without rounding: what was added can be taken away again, in any order, and nothing is left of it.

A sum is an integer of many 64-bit words, in two's complement, least word first: a multiple of the smallest
double (2^-1074), or of 1 for integers and decimals. A row of ``near`` holds a few words, from word ``first``
of the group on: enough for numbers of like size and any count of them. A group whose numbers are further
apart has a row of ``far``, with all words; ``place`` finds those before anything is added. Sums of squares,
where there are any, are multiples of 2^-2148, and their row begins at word ``2 * first``.

NaN, +inf and -inf are counted apart (``specials``), so that they can leave too.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.compiled import njit
from penstock.engine.element import Bools, Int64s

NEAR, FAR = 5, 34
"""Words of a sum of doubles; a double reaches over two, and one is for carries."""
NEAR_SQUARES, FAR_SQUARES = 9, 67
"""Words of a sum of squares."""
WIDE = 3
"""Words of a sum of integers of up to 128 bits."""
HEAD = 6
"""Words of a state before those of its sum: count, NaNs, infinities, negative ones, first word, words."""
UNPLACED = -1
_UNIT = -1074

_ZERO, _ONE, _LOW = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFF)
_FRACTION, _HIDDEN = np.uint64((1 << 52) - 1), np.uint64(1 << 52)


@njit(inline="always")
def _split(bits: np.uint64) -> tuple[np.uint64, np.int64]:
    """The integer in a double, and its place: the double is the integer times 2^(place - 1074)."""
    exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    fraction = bits & _FRACTION
    if exponent == 0:
        return fraction, np.int64(0)
    return fraction | _HIDDEN, exponent - 1


@njit(inline="always")
def _is_special(bits: np.uint64) -> bool:
    return (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF)


@njit(inline="always")
def _with_carry(
    old: np.uint64, part: np.uint64, carry: np.uint64, subtract: bool
) -> tuple[np.uint64, np.uint64]:
    """A word plus a part and a carry, or less them, and the next carry."""
    if subtract:
        return old - part - carry, _ONE if old < part or (old == part and carry) else _ZERO
    new = old + part + carry
    return new, _ONE if new < old or (new == old and carry) else _ZERO


@njit
def _add(row: np.ndarray, low: np.uint64, high: np.uint64, shift: np.int64, subtract: bool) -> None:
    """Add the 128-bit number (high, low), shifted left, to a row, or subtract it."""
    word, bits = shift >> 6, np.uint64(shift & 63)
    a, b, c = low, high, _ZERO
    if bits:
        back = np.uint64(64) - bits
        a, b, c = low << bits, (low >> back) | (high << bits), high >> back
    carry = _ZERO
    for i in range(word, len(row)):
        part = a if i == word else b if i == word + 1 else c if i == word + 2 else _ZERO
        if part == _ZERO and carry == _ZERO and i > word + 2:
            return
        new, carry = _with_carry(np.uint64(row[i]), part, carry, subtract)
        row[i] = np.int64(new)


@njit
def _add_words(row: np.ndarray, at: int, words: np.ndarray, subtract: bool) -> None:
    """Add a number in two's complement to a row from a word on, or subtract it."""
    carry = _ZERO
    extension = np.uint64(words[-1] >> 63) if len(words) else _ZERO
    for i in range(at, len(row)):
        part = np.uint64(words[i - at]) if i - at < len(words) else extension
        new, carry = _with_carry(np.uint64(row[i]), part, carry, subtract)
        row[i] = np.int64(new)


@njit
def place(groups_of: Int64s, valid: Bools, bits: np.ndarray, first: Int64s, far_of: Int64s) -> Int64s:
    """Choose ``first`` for groups that have none; the groups whose numbers do not fit their near row."""
    wanted = np.empty(len(groups_of), np.int64)
    count = 0
    for i in range(len(groups_of)):
        g = groups_of[i]
        if not valid[i] or far_of[g] != UNPLACED or _is_special(bits[i]):
            continue
        integer, at = _split(bits[i])
        if integer == _ZERO:
            continue
        if first[g] == UNPLACED:
            first[g] = (at >> 6) - 1 if at >= 64 else 0
        if at < 64 * first[g] or at > 64 * first[g] + 203:
            far_of[g] = -2
            wanted[count] = g
            count += 1
    return wanted[:count]


@njit
def place_states(
    groups_of: Int64s, valid: Bools, offsets: Int64s, words: Int64s, first: Int64s, far_of: Int64s
) -> Int64s:
    """The same for states. Values may cancel in a sum, so that their squares are elsewhere than it is."""
    wanted = np.empty(len(groups_of), np.int64)
    count = 0
    for i in range(len(groups_of)):
        g = groups_of[i]
        if not valid[i] or far_of[g] != UNPLACED:
            continue
        state = words[offsets[i] : offsets[i + 1]]
        at, size = state[HEAD - 2], state[HEAD - 1]
        of_squares = len(state) - HEAD - size - 1
        squares_at = state[HEAD + size] if of_squares > 0 else 0
        if size == 0 and of_squares <= 0:
            continue
        if first[g] == UNPLACED:
            least = at if of_squares <= 0 else squares_at // 2 if size == 0 else min(at, squares_at // 2)
            first[g] = max(least - 1, 0)
        start = first[g]
        fits = size == 0 or (at >= start and at + size <= start + NEAR - 1)
        if of_squares > 0:
            end = 2 * start + NEAR_SQUARES - 1
            fits = fits and squares_at >= 2 * start and squares_at + of_squares <= end
        if not fits:
            far_of[g] = -2
            wanted[count] = g
            count += 1
    return wanted[:count]


@njit
def move(
    wanted: Int64s, rows: Int64s, first: Int64s, far_of: Int64s, near: np.ndarray, far: np.ndarray,
    near_squares: np.ndarray, far_squares: np.ndarray,
) -> None:  # fmt: skip
    """Move groups from their near rows to the given rows of far ones."""
    for i in range(len(wanted)):
        g, row = wanted[i], rows[i]
        far_of[g] = row
        far[row] = 0
        _add_words(far[row], max(first[g], 0), near[g], False)
        near[g] = 0
        if near_squares.shape[1]:
            far_squares[row] = 0
            _add_words(far_squares[row], 2 * max(first[g], 0), near_squares[g], False)
            near_squares[g] = 0
        first[g] = 0


@njit
def add_doubles(
    start: int, stop: int, g: int, sign: np.ndarray, valid: Bools, bits: np.ndarray, held: Int64s,
    specials: np.ndarray, row: np.ndarray, squares: np.ndarray, first: int,
) -> None:  # fmt: skip
    """Add the doubles of one segment to their group's row."""
    for i in range(start, stop):
        if not valid[i] or sign[i] == 0:
            continue
        held[g] += sign[i]
        negative = bits[i] >> np.uint64(63) != _ZERO
        if _is_special(bits[i]):
            specials[g, 0 if bits[i] & _FRACTION else 2 if negative else 1] += sign[i]
            continue
        integer, at = _split(bits[i])
        if integer == _ZERO:
            continue
        _add(row, integer, _ZERO, at - 64 * first, negative != (sign[i] < 0))
        if len(squares):
            low, high = _square(integer)
            _add(squares, low, high, 2 * at - 128 * first, sign[i] < 0)


@njit(inline="always")
def _square(integer: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The square of an integer of 53 bits, as (low, high)."""
    low, high = integer & _LOW, integer >> np.uint64(32)
    least, middle, most = low * low, low * high, high * high
    shifted = middle << np.uint64(33)
    total = least + shifted
    carry = _ONE if total < least else _ZERO
    return total, most + (middle >> np.uint64(31)) + carry


@njit
def sums_of_doubles(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, bits: np.ndarray, held: Int64s,
    specials: np.ndarray, first: Int64s, far_of: Int64s, near: np.ndarray, far: np.ndarray,
    near_squares: np.ndarray, far_squares: np.ndarray, kind: int, counts: np.ndarray, shown: np.ndarray,
    ends: Int64s, states: Int64s,
) -> None:  # fmt: skip
    """Add each segment's doubles; ``counts[s]`` and ``shown[s]`` are those before and after it.

    For the kind STATE, ``states`` up to each of ``ends`` is a state instead, by ``write_state``.
    """
    for s in range(len(groups)):
        g = groups[s]
        f, again = far_of[g], s > 0 and groups[s - 1] == g
        row = far[f] if f >= 0 else near[g]
        squares = far_squares[f] if f >= 0 else near_squares[g]
        show(s, 0, again, row, squares, first[g], held[g], specials[g], kind, counts, shown, ends, states)
        add_doubles(bounds[s], bounds[s + 1], g, sign, valid, bits, held, specials, row, squares, first[g])
        show(s, 1, False, row, squares, first[g], held[g], specials[g], kind, counts, shown, ends, states)


@njit
def sums_of_states(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, offsets: Int64s, words: Int64s,
    held: Int64s, specials: np.ndarray, first: Int64s, far_of: Int64s, near: np.ndarray, far: np.ndarray,
    near_squares: np.ndarray, far_squares: np.ndarray, kind: int, counts: np.ndarray, shown: np.ndarray,
    ends: Int64s, states: Int64s,
) -> None:  # fmt: skip
    """Add each segment's states, as ``write_state`` wrote them; the rest as ``sums_of_doubles``."""
    for s in range(len(groups)):
        g = groups[s]
        f, again = far_of[g], s > 0 and groups[s - 1] == g
        row = far[f] if f >= 0 else near[g]
        squares = far_squares[f] if f >= 0 else near_squares[g]
        show(s, 0, again, row, squares, first[g], held[g], specials[g], kind, counts, shown, ends, states)
        for i in range(bounds[s], bounds[s + 1]):
            if valid[i] and sign[i] != 0:
                state = words[offsets[i] : offsets[i + 1]]
                add_state(g, sign[i], state, held, specials, row, squares, max(first[g], 0))
        show(s, 1, False, row, squares, first[g], held[g], specials[g], kind, counts, shown, ends, states)


@njit
def show(
    s: int, side: int, again: bool, row: np.ndarray, squares: np.ndarray, first: int, held: int,
    special: np.ndarray, kind: int, counts: np.ndarray, shown: np.ndarray, ends: Int64s, states: Int64s,
) -> None:  # fmt: skip
    """Set a group's count and value before (side 0) or after (1) a segment; ``again``: they are known."""
    counts[s, side] = held
    if kind == STATE:
        at = 2 * s + side
        start = ends[at - 1] if at else 0
        ends[at] = write_state(row, squares, max(first, 0), held, special, states, start)
    elif again:
        shown[s, side] = shown[s - 1, 1]
    else:
        shown[s, side] = value(row, squares, first, held, special, kind)


@njit
def add_state(
    g: int, sign: int, state: Int64s, held: Int64s, specials: np.ndarray, row: np.ndarray,
    squares: np.ndarray, first: int,
) -> None:  # fmt: skip
    """Add one state to a group, or subtract it."""
    held[g] += sign * state[0]
    for k in range(3):
        specials[g, k] += sign * state[1 + k]
    at, size = state[HEAD - 2], state[HEAD - 1]
    if size:
        _add_words(row, at - first, state[HEAD : HEAD + size], sign < 0)
    if len(squares) and len(state) > HEAD + size:
        at = state[HEAD + size]
        _add_words(squares, at - 2 * first, state[HEAD + size + 1 :], sign < 0)


@njit
def sums_of_integers(
    bounds: Int64s, groups: Int64s, sign: np.ndarray, valid: Bools, low: Int64s, high: Int64s,
    near: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Add 128-bit integers given as (low, high); the words of the sums before and after each segment."""
    before, after = np.empty((len(groups), WIDE), np.int64), np.empty((len(groups), WIDE), np.int64)
    number = np.empty(2, np.int64)
    for s in range(len(groups)):
        row = near[groups[s]]
        before[s] = row
        for i in range(bounds[s], bounds[s + 1]):
            if valid[i] and sign[i] != 0:
                number[0], number[1] = low[i], high[i]
                _add_words(row, 0, number, sign[i] < 0)
        after[s] = row
    return before, after


# Results.

SUM, AVERAGE, STATE, VARIANCE, VARIANCE_OF_ALL, DEVIATION, DEVIATION_OF_ALL = range(7)


@njit
def value(
    row: np.ndarray, squares: np.ndarray, first: int, held: int, special: np.ndarray, kind: int
) -> float:
    """A function of a group, from its exact sums."""
    if held == 0:
        return 0.0
    if kind >= VARIANCE:
        return _spread(row, squares, first, held, special, kind)
    if special[0] > 0 or (special[1] > 0 and special[2] > 0):
        return np.nan
    if special[1] > 0:
        return np.inf
    if special[2] > 0:
        return -np.inf
    return _average(row, first, held) if kind == AVERAGE else rounded(row, first)


@njit
def _average(row: np.ndarray, first: int, held: int) -> float:
    """The double nearest to the exact sum over the count, also where the sum is no double.

    A long division by digits of 32 bits, until 64 bits of the quotient are known and whether more follow.
    """
    negative, lowest, top = row[-1] < 0, 0, len(row) - 1
    while lowest < len(row) and row[lowest] == 0:
        lowest += 1
    if lowest == len(row):
        return 0.0
    while _word(row, top, lowest, negative) == _ZERO:
        top -= 1
    lead, rest, bits, at, sticky = _ZERO, _ZERO, 0, 2 * top + 2, False
    while bits < 64:
        at -= 1
        word = _word(row, at >> 1, lowest, negative) if at >= 0 else _ZERO
        digit, rest = _digit_of_quotient(
            rest, word >> np.uint64(32) if at & 1 else word & _LOW, np.uint64(held)
        )
        taken = min(64 - bits, 32) if bits else _length(digit) if digit else 0
        if taken:
            left = np.uint64(32 - taken) if bits else _ZERO
            lead = (lead << np.uint64(taken)) | (digit >> left)
            sticky = digit & ((_ONE << left) - _ONE) != _ZERO
            lead_at = 32 * at + np.int64(left)
            bits += taken
    below = np.uint64(row[at >> 1]) & _LOW if at > 0 and at & 1 else _ZERO
    sticky = sticky or rest != _ZERO or below != _ZERO or lowest < at >> 1
    number = _nearest(lead, sticky, lead_at + 64 * max(first, 0) + _UNIT)
    return -number if negative else number


@njit(inline="always")
def _digit_of_quotient(rest: np.uint64, digit: np.uint64, by: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The next 32 bits of a long division, and what is left."""
    if by <= _LOW:
        total = (rest << np.uint64(32)) | digit
        found = total // by
        return found, total - found * by
    found = _ZERO  # by single bits, so that nothing overflows
    for bit in range(31, -1, -1):
        rest = (rest << _ONE) | ((digit >> np.uint64(bit)) & _ONE)
        found <<= _ONE
        if rest >= by:
            rest -= by
            found |= _ONE
    return found, rest


@njit
def _spread(
    row: np.ndarray, squares: np.ndarray, first: int, held: int, special: np.ndarray, kind: int
) -> float:
    """(n Σx² − (Σx)²) / (n (n − 1)), or over n²; the numerator is exact."""
    if special[0] + special[1] + special[2] > 0:
        return np.nan
    divisor = float(held) if kind in (VARIANCE_OF_ALL, DEVIATION_OF_ALL) else float(held - 1)
    if divisor == 0.0:
        return 0.0
    digits = _times(_digits(squares, False), held)
    below = _digits(row, row[-1] < 0)
    _subtract(digits, _product(below))
    mantissa, exponent = _leading(digits)
    exponent += 2 * _UNIT + 128 * max(first, 0)
    spread = mantissa / float(held) / divisor
    if kind < DEVIATION:
        return math.ldexp(spread, int(exponent))
    if exponent & 1:
        spread, exponent = spread * 2.0, exponent - 1
    return math.ldexp(math.sqrt(spread), int(exponent // 2))


@njit
def _digits(row: np.ndarray, negate: bool) -> np.ndarray:
    """A number, or its negative, as 32-bit digits, least first."""
    digits = np.zeros(2 * len(row), np.uint64)
    carry = _ONE
    for i in range(len(row)):
        word = np.uint64(row[i])
        if negate:
            word = ~word + carry
            carry = _ONE if carry and word == _ZERO else _ZERO
        digits[2 * i] = word & _LOW
        digits[2 * i + 1] = word >> np.uint64(32)
    return digits


@njit
def _times(digits: np.ndarray, factor: int) -> np.ndarray:
    low, high = np.uint64(factor) & _LOW, np.uint64(factor) >> np.uint64(32)
    out = np.zeros(len(digits) + 3, np.uint64)
    for k in range(2):
        part = low if k == 0 else high
        if part == _ZERO:
            continue
        carry = _ZERO
        for i in range(len(digits)):
            total = digits[i] * part + out[i + k] + carry
            out[i + k] = total & _LOW
            carry = total >> np.uint64(32)
        out[len(digits) + k] += carry
    return out


@njit
def _product(digits: np.ndarray) -> np.ndarray:
    """The square of a number."""
    size = len(digits)
    while size > 0 and digits[size - 1] == _ZERO:
        size -= 1
    out = np.zeros(2 * size + 1, np.uint64)
    for i in range(size):
        carry = _ZERO
        for j in range(size):
            total = digits[i] * digits[j] + out[i + j] + carry
            out[i + j] = total & _LOW
            carry = total >> np.uint64(32)
        out[i + size] = carry
    return out


@njit
def _subtract(digits: np.ndarray, other: np.ndarray) -> None:
    """Subtract a smaller number."""
    borrow = _ZERO
    for i in range(len(digits)):
        part = (other[i] if i < len(other) else _ZERO) + borrow
        borrow = _ONE if digits[i] < part else _ZERO
        digits[i] = (digits[i] - part) & _LOW


@njit
def _leading(digits: np.ndarray) -> tuple[float, int]:
    """A number as the double nearest to its leading digits, times a power of two."""
    top = len(digits) - 1
    while top > 0 and digits[top] == _ZERO:
        top -= 1
    mantissa = 0.0
    least = max(top - 3, 0)
    for i in range(top, least - 1, -1):
        mantissa = mantissa * 4294967296.0 + float(digits[i])
    return mantissa, 32 * least


@njit(inline="always")
def _word(row: np.ndarray, i: int, lowest: int, negative: bool) -> np.uint64:
    """A word of a number's absolute value; ``lowest`` is the first that is not zero."""
    word = np.uint64(row[i])
    if not negative or i < lowest:
        return word
    return ~word + _ONE if i == lowest else ~word


@njit(inline="always")
def _length(word: np.uint64) -> int:
    """The number of bits of a word without zeros above."""
    bits = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            bits += step
    return bits + 1


@njit
def rounded(row: np.ndarray, first: int) -> float:
    """The double nearest to a sum, ties to even; infinite if there is none."""
    negative, lowest, top = row[-1] < 0, 0, len(row) - 1
    while lowest < len(row) and row[lowest] == 0:
        lowest += 1
    if lowest == len(row):
        return 0.0
    while _word(row, top, lowest, negative) == _ZERO:
        top -= 1
    lead = _word(row, top, lowest, negative)
    bits = _length(lead)
    # The leading 64 bits, and whether anything is below them.
    sticky = lowest < top - 1
    if top > 0:
        under = _word(row, top - 1, lowest, negative)
        if bits < 64:
            lead = (lead << np.uint64(64 - bits)) | (under >> np.uint64(bits))
            under <<= np.uint64(64 - bits)
        sticky = sticky or under != _ZERO
    else:
        lead <<= np.uint64(64 - bits) if bits < 64 else _ZERO
    exponent = 64 * (top + max(first, 0)) + bits - 64 + _UNIT
    number = _nearest(lead, sticky, exponent)
    return -number if negative else number


@njit
def _nearest(lead: np.uint64, sticky: bool, exponent: int) -> float:
    """The double nearest to 64 bits, the first of them set, times 2^exponent; ``sticky``: and a bit more."""
    drop = max(11, _UNIT - exponent)  # a number below the least normal one has fewer bits
    if drop > 64:
        return 0.0
    half = _ONE << np.uint64(drop - 1)
    rest, integer = (lead, _ZERO) if drop == 64 else (lead & (half + (half - _ONE)), lead >> np.uint64(drop))
    if rest > half or (rest == half and (sticky or integer & _ONE)):
        integer += _ONE
    return math.ldexp(float(integer), int(exponent + drop))


@njit
def write_state(
    row: np.ndarray, squares: np.ndarray, first: int, held: int, special: np.ndarray, out: Int64s, at: int
) -> int:
    """Write a group's state: its counts, then its sums without the words that follow from others.

    Groups with equal sums have equal states, whatever their rows are. Returns where it ends.
    """
    out[at] = held
    for k in range(3):
        out[at + 1 + k] = special[k]
    low, high = _used(row)
    out[at + HEAD - 2] = first + low if high > low else 0
    out[at + HEAD - 1] = high - low
    at += HEAD
    for i in range(low, high):
        out[at + i - low] = row[i]
    at += high - low
    if len(squares):
        low, high = _used(squares)
        out[at] = 2 * first + low if high > low else 0
        at += 1
        for i in range(low, high):
            out[at + i - low] = squares[i]
        at += high - low
    return at


@njit
def _used(row: np.ndarray) -> tuple[int, int]:
    """The words of a number without zeros below and copies of the sign above."""
    low, high = 0, len(row)
    while low < high and row[low] == 0:
        low += 1
    while high > low + 1 and row[high - 1] == row[high - 2] >> 63:
        high -= 1
    return low, high
