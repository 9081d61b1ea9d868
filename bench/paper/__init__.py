"""The papers' experiments, run again: one file a figure or table."""
