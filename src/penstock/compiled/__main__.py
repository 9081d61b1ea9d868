"""``python -m penstock.compiled``: compile all kernels that are not in the cache."""

import sys

from penstock.compiled.places import cache_directory
from penstock.compiled.warm import missing, warm


def show(done: int, total: int) -> None:
    """One line that changes; only where somebody looks."""
    if sys.stderr.isatty():
        print(f"\rkernels: {done} of {total} are compiled ", end="\n" * (done == total), file=sys.stderr)


if __name__ == "__main__":
    if count := len(missing()):
        print(f"compiling {count} kernels, once, into {cache_directory()}", file=sys.stderr)
        for line in warm(progress=show):
            print(f"does not compile (python tests/kernel_signatures.py): {line}", file=sys.stderr)
