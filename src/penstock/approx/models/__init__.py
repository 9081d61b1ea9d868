"""Models of how a stream's tuples join: by their age, or by their value."""
