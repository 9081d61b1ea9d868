"""The operators of thesis table 2.1, one a file."""
