"""What a search has measured: `search.json` beside model.yaml, so that the next one goes on.

It counts for the files, the machine and the load that it was measured with, and no others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gateway.models import versions
from gateway.models.profiling import Machine
from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.variants import evidence

FILE = "search.json"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    seconds: float = 300.0  # for all of a search
    most_callers: int = 32
    words: int = 12  # of a text
    limit_s: float | None = None  # for 99 of 100 calls
    point_s: float = 0.4  # of one load


@dataclass(slots=True)
class SearchRecord:
    path: Path
    basis: dict[str, Any]
    trials: dict[ServingChoice, ChoiceTrial] = field(default_factory=dict)
    reused: int = 0  # trials of an earlier search

    @classmethod
    def opened(cls, directory: Path, plan: SearchPlan) -> SearchRecord:
        """Of the version that is served, with what is known of it."""
        record = cls(directory / FILE, _basis(directory, plan))
        try:
            held = json.loads(record.path.read_text(encoding="utf-8"))
            # guard: E6.same-basis -> trials = [ChoiceTrial.from_json(t) for t in held['trials']]
            trials = [
                ChoiceTrial.from_json(t) for t in held["trials"] if held["basis"] == record.basis
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return record
        record.trials = {trial.choice: trial for trial in trials}
        record.reused = len(trials)
        return record

    def add(self, trial: ChoiceTrial) -> None:
        self.trials[trial.choice] = trial
        trials = [one.as_json() for one in self.trials.values()]
        temporary = self.path.with_name(f".{self.path.name}.new")
        document = json.dumps({"basis": self.basis, "trials": trials}, indent=1) + "\n"
        temporary.write_text(document, encoding="utf-8")
        temporary.replace(self.path)


def _basis(directory: Path, plan: SearchPlan) -> dict[str, Any]:
    version = versions.current(directory)
    files = {
        str(path.relative_to(version)): versions.sha256(path)
        for path in sorted(version.rglob("*"))
        if path.is_file() and path.name != evidence.FILE and "__pycache__" not in path.parts
    }
    return {
        "version": version.name,
        "files": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "machine": asdict(Machine.this()),
        "callers": plan.most_callers,
        "words": plan.words,
        "point_s": plan.point_s,
    }
