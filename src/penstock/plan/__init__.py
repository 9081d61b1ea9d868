"""Plans: logical, rewritten, physical, explained."""

from penstock.plan.compile import compile

__all__ = ["compile"]
