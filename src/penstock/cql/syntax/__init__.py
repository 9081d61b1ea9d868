"""From text to syntax: the dialect, the nodes it adds, errors with their position."""
