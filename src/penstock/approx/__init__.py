"""Approximate answers within a budget: how scarce CPU and memory are divided, and which tuples are kept."""
