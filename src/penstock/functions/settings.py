"""Numbers of this package that one might tune, each with a reason."""

REPEATS_FROM = 256
"""Rows from which on a function in Python looks whether values repeat: fewer are computed in the time."""
