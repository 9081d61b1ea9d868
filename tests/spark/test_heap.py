"""Memory that is freed after a step is there for the next one."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, sys
from penstock.spark.process import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for step in range(12):
    if step == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [bytearray(8 << 20) for _ in range(6)]
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    ran = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
def test_a_step_does_not_fault_in_the_memory_of_the_one_before() -> None:
    assert page_faults("keep") < page_faults("give back") / 10
