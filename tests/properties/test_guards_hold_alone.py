"""M3: each placement guard holds alone, and without all of them restricted calls do leave.

Guards are removed in a copy of the package's source, against which random fault schedules then run
in a process of their own. So this also shows that the schedules are able to find a leak.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gateway
from tests.marks import take_out
from tests.properties.schedules import world
from tests.unit.harness import run

pytestmark = pytest.mark.interpreted

WORLDS = 60
PACKAGE = Path(gateway.__file__).parent
ROOT = PACKAGE.parent


FILTER, ZONES, DISPATCH, VERDICT, DECIDED, DOOR = ALL = (
    "M1.filter", "M2.zones", "M3.dispatched-zone", "M3.verdict", "M3.decided-zones", "M1.known",
)  # fmt: skip
"""Marks of the guards in gateway/ (tests/marks.py)."""


def without(guards: tuple[str, ...], scratch: Path) -> Path:
    """A copy of the package that lacks these guards."""
    copy = scratch / "gateway"
    shutil.copytree(PACKAGE, copy)  # with its bytecode: what is not changed is not compiled again
    take_out(guards, scratch)
    return scratch


def leaks_of(scratch: Path) -> int:
    """Restricted calls in the cloud, over random schedules, with the package in `scratch`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.test_guards_hold_alone"],
        cwd=scratch,
        env={"PYTHONPATH": f"{scratch}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["package"] == str(scratch / "gateway")
    return int(told["leaks"])


async def _count_leaks() -> int:
    return sum([len((await world(seed)).leaked) for seed in range(WORLDS)])


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({FILTER}, id="the-filter"),
        pytest.param({ZONES, DISPATCH}, id="the-check-of-each-attempt"),
        pytest.param({VERDICT}, id="the-verdict-in-the-clearance"),
        pytest.param({ZONES, DECIDED}, id="the-zones-in-the-clearance"),
        pytest.param({DOOR}, id="the-look-at-the-door"),
    ],
)
def test_each_guard_alone_keeps_restricted_calls_in(left: set[str], tmp_path: Path) -> None:
    removed = tuple(guard for guard in ALL if guard not in left)
    assert leaks_of(without(removed, tmp_path)) == 0


def test_without_any_guard_restricted_calls_leave_and_the_schedules_see_it(tmp_path: Path) -> None:
    assert leaks_of(without(ALL, tmp_path)) > 0


if __name__ == "__main__":
    json.dump(
        {"leaks": run(_count_leaks()), "package": str(Path(gateway.__file__).parent)}, sys.stdout
    )
