"""Figure 6.18: CA and RIDS, by the k of RIDS(k)."""

from bench.paper.combined_constraints import ca_and_rids, ca_and_rids_claims
from bench.paper.figure import Figure

FIGURE = Figure(
    "6.18", "Effect of combining CA and RIDS", "k", ("rows_kept",), ca_and_rids, ca_and_rids_claims
)
