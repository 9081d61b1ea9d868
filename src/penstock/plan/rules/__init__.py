"""Rewrite rules of the logical plan, one a file. ``plan/optimizer.py`` lists them in order."""
