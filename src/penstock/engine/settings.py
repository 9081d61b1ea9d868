"""Tunables of the engine: sizes of its structures."""

TREE_NODE_ROWS = 100
"""Entries in a node of a B+-tree or a T-tree (Kang et al., section 5.1)."""
