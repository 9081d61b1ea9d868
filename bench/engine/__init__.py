"""Benchmarks of the engine alone."""
