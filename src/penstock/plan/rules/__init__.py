"""Rewrite rules of the logical plan, one per file. ``plan/optimizer.py`` lists them in order."""
