"""A dump of a process that holds calls would be their content on a disk (C12)."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
from gateway.core.process import coredumps
coredumps.forbid()
print(*resource.getrlimit(resource.RLIMIT_CORE))
asked = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"
print(subprocess.check_output([sys.executable, "-c", asked], text=True), end="")
"""


def test_no_process_from_there_on_can_leave_a_dump() -> None:
    """1 and not 0: to a program in `core_pattern` Linux hands dumps at 0 as well."""
    told = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True)
    own, started = told.splitlines()
    assert own == started
    assert set(own.split()) <= {"0", "1"}
