"""Figure 6.17: CA and OAC, each alone and both."""

from bench.paper.combined_constraints import ca_and_oac, ca_and_oac_claims
from bench.paper.figure import Figure

FIGURE = Figure(
    "6.17", "Effect of combining CA and OAC", "tuples", ("rows_kept",), ca_and_oac, ca_and_oac_claims
)
