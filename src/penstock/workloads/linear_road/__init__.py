"""Linear Road: traffic on expressways with tolls that vary, in the benchmark's own format.

Arasu et al., Linear Road: A Stream Data Management Benchmark (VLDB 2004); thesis sections 2.6 and 6.11.
"""

from penstock.workloads.linear_road.layout import COLUMNS, DDL, HISTORY_SCHEMA, SCHEMA
from penstock.workloads.linear_road.traffic import LinearRoad

__all__ = ["COLUMNS", "DDL", "HISTORY_SCHEMA", "SCHEMA", "LinearRoad"]
