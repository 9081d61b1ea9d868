"""Plans: logical, rewritten, physical, explained."""

from penstock.plan.compile import compile
from penstock.plan.explain import explain

__all__ = ["compile", "explain"]
