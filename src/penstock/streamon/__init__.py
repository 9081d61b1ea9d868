"""StreaMon: executor, profiler and re-optimizer, the three parts of everything adaptive (thesis chapter 3).

Nothing here knows an operator: filters are numbers 0 .. n-1, a plan is an order of them, a statistic is an
array. The operators of ``engine`` are the executors; they request an order and report what they measured.
"""
