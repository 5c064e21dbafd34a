"""Whether the worlds find what they are for: take out one guard of the gateway, and count the seeds
until a world tells. `python -m tests.simulation.mutations`

Each change is made in a copy. A guard that stands behind another is taken out together with it; one
that is only a second line of defence (`Cleared`) is proved by the unit tests of its own.
"""

from __future__ import annotations

import argparse
import ast
import logging
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Change:
    file: str  # in gateway/
    old: str
    new: str

    def applies(self) -> bool:
        return (ROOT / "gateway" / self.file).read_text().count(self.old) == 1

    def make(self, root: Path) -> None:
        assert self.applies(), f"{self.file} has changed: {self.old}"
        path = root / "gateway" / self.file
        path.write_text(path.read_text().replace(self.old, self.new))


@dataclass(frozen=True, slots=True)
class Mutation:
    guard: str  # what is gone
    rules: frozenset[str]  # the behaviours of which one is then seen to break
    changes: tuple[Change, ...]


def _one(guard: str, rules: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(guard, frozenset(rules.split()), (Change(file, old, new),))


_CLEARED = Change(
    "backends/__init__.py",
    "        if (\n            found.sensitivity is not CLEAR\n",
    "        if False and (\n            found.sensitivity is not CLEAR\n",
)
_FILTER = Change(
    "routing/filters.py",
    'return "restricted" if found.restricted and state.endpoint.zone is CLOUD else None',
    "return None",
)
_ZONES = Change(
    "routing/policy.py",
    "zones=ONPREM_ONLY if found.restricted or not self.spill else request.zones,",
    "zones=request.zones if self.spill else ONPREM_ONLY,",
)
_DOOR = Change(
    "pipeline.py",
    "        if not self.found.restricted and not self.found.complete:\n",
    "        if False:\n",
)
_KNOWN = Change(
    "pipeline.py",
    "        if self.found.restricted:\n            raise NotCleared\n",
    "",
)

_LEAVES_AT_ONCE = Change(
    "attempt.py", "asyncio.get_running_loop().call_soon(self._leave)", "self._leave()"
)

MUTATIONS: tuple[Mutation, ...] = (
    # Placement
    Mutation("the restricted filter", frozenset({"M1", "M2", "A4"}), (_FILTER,)),
    Mutation(
        "the restricted filter, the zones and Cleared", frozenset({"M1", "M2"}),
        (_FILTER, _ZONES, _CLEARED, _KNOWN),
    ),
    Mutation("the look at the door", frozenset({"M1", "A4"}), (_DOOR,)),
    Mutation("the look at the door, and Cleared", frozenset({"M1"}), (_DOOR, _CLEARED)),
    Mutation("what the door found, and Cleared", frozenset({"M1"}), (_KNOWN, _CLEARED)),
    Mutation("the zones shrink with the verdict", frozenset({"M2"}), (_ZONES,)),
    _one("what callers allow", "M1 M2 A4", "routing/filters.py",
         '        return "placement"\n', "        pass\n"),
    _one("sequences stay", "M1", "routing/filters.py",
         '        return "stateful"\n', "        pass\n"),
    _one("the switch for the cloud", "S5", "routing/policy.py",
         "if why is None and not self.spill and", "if False and"),
    _one("money is there before it is spent", "S5", "spill/budget.py",
         "return self.opens(now_s) and nano_usd <= self.left_now", "return self.opens(now_s)"),
    # What is held is given back
    _one("the turn is given back", "A2", "attempt.py",
         "            self.turn.release(self.answered)\n", "            pass\n"),
    _one("the turn of who leaves is given back", "A2 A3", "attempt.py",
         'failed, closing = Kept(exc), self.end(None, "cancelled")',
         "failed, closing = Kept(exc), None"),
    _one("the turn of who runs out of time is given back", "A2 A3 B3", "attempt.py",
         "failed, closing = Kept(late), self.end(late)", "failed, closing = Kept(late), None"),
    _one("the turn of a connector's bug is given back", "A2 A3", "attempt.py",
         'failed, closing = Kept(exc), self.end(None, "internal")',
         "failed, closing = Kept(exc), None"),
    _one("money put aside is settled", "A2 S5", "attempt.py",
         "            self.reserved.settle(attempt.cost.nano_usd)\n", "            pass\n"),
    _one("calls in flight are counted down", "A2", "attempt.py",
         "            self.fleet.ended(self.endpoint, self.request.model)\n", "            pass\n"),
    _one("admission is left", "A2", "admission.py",
         "        self.inside -= 1\n", ""),
    _one("the account is settled once", "A2", "accounting/account.py",
         "        if self._settled:\n            return\n", ""),
    _one("who leaves a stream is settled", "A2", "pipeline.py",
         '            self._settle(Outcome.CANCELLED, "caller_left")\n', "            pass\n"),
    _one("the upstream is closed", "A3", "attempt.py",
         "    return asyncio.ensure_future(stream.aclose())\n", "    return None\n"),
    _one("a record before the answer", "B4", "accounting/account.py",
         "            self._told = None\n            self._accounts.metrics.record_failures.inc()\n"
         "            raise\n",
         "            return None\n"),
    _one("an answer waits until its record is durable", "B4", "pipeline.py",
         "                await account.on_record(told)\n", "                pass\n"),
    _one("a second attempt is told of, too", "B4 B8", "accounting/account.py",
         "            record = self._intent(attempt)\n", "            return None\n"),
    # Time
    _one("the deadline of the first frame", "D1", "attempt.py",
         "min(request.deadline.at_s, now_s + least_s)", "now_s + 1e5"),
    _one("the deadline of later frames", "D1", "attempt.py",
         "min(request.deadline.at_s, idle_at_s)", "now_s + 1e5"),
    _one("the deadline of the look", "D1", "pipeline.py",
         "patience.within(left_s)", "patience.within(1e5)"),
    _one("streams are cut at the end of a drain", "D1 A2", "pipeline.py",
         "            stream.cut(why())\n", "            pass\n"),
    _one("no caller waits for a slow close", "D1", "attempt.py",
         "asyncio.wait((closing,), timeout=_CLOSES_IN_S)", "asyncio.wait((closing,))"),
    # Attempts
    _one("the commit point", "A4", "attempt.py",
         "            failed, closing = Kept(exc), attempt.end(exc)\n        self._done = True\n",
         "            attempt.stream = await attempt._open()\n"
         "            return await anext(attempt.stream)\n        self._done = True\n"),
    _one("a broken stream is no whole one", "A4 A2", "attempt.py",
         "            failed, closing = Kept(exc), attempt.end(exc)\n        self._done = True\n",
         "            failed, closing = Kept(StopAsyncIteration()), attempt.end(exc)\n"
         "        self._done = True\n"),
    _one("second tries are few", "A5", "retries.py",
         "        if self._left < 1.0:\n            return False\n", ""),
    _one("no hedge of what has failed", "A2 A4", "dispatch.py",
         "if attempt.finished or attempt.sent_s is None", "if attempt.sent_s is None"),
    _one("the winner of a hedge whose caller has left", "A2 A3", "hedge.py",
         "        await answered.aclose()\n", ""),
    _one("limits that have fired are left alone", "A6 A2", "place.py",
         "            if waiting.ran_out:\n                continue\n", ""),
    # Limits
    _one("room in the cloud when it is sent", "S2", "attempt.py",
         "        if away and not self.fleet.takes_another(",
         "        if away and self.fleet.places is None and self.fleet.takes_another("),
    Mutation(
        "the close goes out before who waits is sent", frozenset({"S2"}),
        (_LEAVES_AT_ONCE, Change(
            "attempt.py",
            "    return asyncio.ensure_future(stream.aclose())\n",
            "    return stream.aclose()\n",
        )),
    ),
    Mutation(
        "the close goes out before who comes is sent", frozenset({"S2"}), (_LEAVES_AT_ONCE,)
    ),
)  # fmt: skip


def stale() -> list[str]:
    """Guards that are not where they were: their change has to be written anew."""
    return [m.guard for m in MUTATIONS if not all(change.applies() for change in m.changes)]


@dataclass(frozen=True, slots=True)
class Found:
    seeds: int  # until a world told; 0: none did
    rule: str = ""
    what: str = ""


def found(mutation: Mutation, most: int) -> Found:
    """Of the gateway without the guard, in a copy and in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
        root = Path(scratch)
        for folder in ("gateway", "tests/simulation"):
            ignored = shutil.ignore_patterns("__pycache__", "weights", "demo")
            shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
        shutil.copy(ROOT / "tests" / "__init__.py", root / "tests")
        for change in mutation.changes:
            change.make(root)
        told = subprocess.run(
            [sys.executable, "-m", "tests.simulation.mutations", "--hunt", str(most)],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return Found(*ast.literal_eval(told.stdout))


def hunt(most: int) -> tuple[int, str, str]:
    from tests.simulation.seeds import collected_by_hand  # the copy's, whatever is broken in it
    from tests.simulation.world import ran

    logging.disable(logging.CRITICAL)
    with collected_by_hand():
        for seed in range(most):
            if violations := ran(seed).violations:
                return seed + 1, violations[0].rule, str(violations[0])
    return 0, "", ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("--most", type=int, default=2000, help="seeds to look for each in")
    parser.add_argument("--only", default="", help="guards with this in their name")
    parser.add_argument("--hunt", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hunt is not None:
        print(hunt(given.hunt))
        return 0
    missed = 0
    for mutation in MUTATIONS:
        if given.only in mutation.guard:
            there = found(mutation, given.most)
            missed += there.rule not in mutation.rules
            print(f"| {mutation.guard} | {there.rule} | {there.seeds} |  {there.what}", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
