"""Penstock: continuous queries in CQL on Spark."""
