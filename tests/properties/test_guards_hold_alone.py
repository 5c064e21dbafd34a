"""M3: each placement guard holds alone, and without all of them restricted calls do leave.

Guards are removed in a copy of the package's source, against which random fault schedules then run
in a process of their own. So this also shows that the schedules are able to find a leak.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import gateway
from tests.properties.schedules import world
from tests.unit.harness import run

pytestmark = pytest.mark.interpreted

WORLDS = 60
PACKAGE = Path(gateway.__file__).parent
ROOT = PACKAGE.parent


@dataclass(frozen=True, slots=True)
class Guard:
    """A few words of source that stand in the way of a leak, and what they become without."""

    file: str
    text: str
    without: str


FILTER = Guard(
    "routing/policy.py", "why = keeps_restricted_onprem(request, found, state)", "why = None"
)
ZONES = Guard(
    "routing/policy.py",
    "zones=ONPREM_ONLY if found.restricted or not self.spill else request.zones",
    "zones=request.zones",
)
DISPATCH = Guard("dispatch.py", "if zone not in decision.zones:", "if False:")
VERDICT = Guard("backends/__init__.py", "found.sensitivity is not CLEAR", "False")
DECIDED = Guard("backends/__init__.py", "CLOUD not in decision.zones", "False")
DOOR = Guard("pipeline.py", "if self.found.restricted:\n            raise NotCleared", "")
ALL = (FILTER, ZONES, DISPATCH, VERDICT, DECIDED, DOOR)


def without(guards: tuple[Guard, ...], scratch: Path) -> Path:
    """A copy of the package that lacks these guards."""
    copy = scratch / "gateway"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for guard in guards:
        path = copy / guard.file
        source = path.read_text("utf-8")
        assert source.count(guard.text) == 1, f"{guard.file}: where is {guard.text!r} now?"
        path.write_text(source.replace(guard.text, guard.without), "utf-8")
    return scratch


def leaks_of(scratch: Path) -> int:
    """Restricted calls in the cloud, over random schedules, with the package in `scratch`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.test_guards_hold_alone"],
        cwd=scratch,
        env={"PYTHONPATH": f"{scratch}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
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
def test_each_guard_alone_keeps_restricted_calls_in(left: set[Guard], tmp_path: Path) -> None:
    removed = tuple(guard for guard in ALL if guard not in left)
    assert leaks_of(without(removed, tmp_path)) == 0


def test_without_any_guard_restricted_calls_leave_and_the_schedules_see_it(tmp_path: Path) -> None:
    assert leaks_of(without(ALL, tmp_path)) > 0


if __name__ == "__main__":
    json.dump(
        {"leaks": run(_count_leaks()), "package": str(Path(gateway.__file__).parent)}, sys.stdout
    )
