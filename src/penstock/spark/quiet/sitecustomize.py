"""What Python runs when Spark starts a process for Penstock's functions (:func:`..process.quiet_workers`).

Before a stage's first batch, pyspark starts a worker in the driver that prints each of its steps, the first
before any of Penstock's code is loaded. Those lines are for pyspark's developers; errors take another way.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

if any("transform_with_state_driver_worker" in word for word in sys.orig_argv):
    sys.stdout = open(os.devnull, "w")

# This module hides another of its name, which the environment may have.
_here = os.path.dirname(os.path.abspath(__file__))
_usual = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != _here])
if _usual is not None and _usual.loader is not None:
    _usual.loader.exec_module(module_from_spec(_usual))
