"""Penstock beside other ways of doing the same thing: same files, same machine, one run."""
