"""All of them, in the order of the page."""

from __future__ import annotations

from tests.behaviours import Behaviour
from tests.behaviours.admission import ADMISSION
from tests.behaviours.audit import AUDIT, PROOF
from tests.behaviours.callers import CALLERS, SEEING
from tests.behaviours.classification import CLASSIFICATION
from tests.behaviours.console import CONSOLE
from tests.behaviours.costs import COSTS
from tests.behaviours.deadlines import DEADLINES
from tests.behaviours.execution import EXECUTION
from tests.behaviours.failover import FAILOVER
from tests.behaviours.held import HELD
from tests.behaviours.http2 import HTTP2
from tests.behaviours.models import MODELS
from tests.behaviours.operations import OPERATIONS
from tests.behaviours.registries import REGISTRIES
from tests.behaviours.released import RELEASED
from tests.behaviours.shadows import SHADOWS
from tests.behaviours.sight import SIGHT
from tests.behaviours.spill import SPILL
from tests.behaviours.workers import WORKERS

EVERY: tuple[tuple[str, tuple[Behaviour, ...]], ...] = (
    ("Reading calls", CLASSIFICATION),
    ("Deadlines", DEADLINES),
    ("Spilling and queueing", SPILL),
    ("Admission, failover and streams", (*ADMISSION, *FAILOVER, *HTTP2, *HELD, *RELEASED)),
    ("Costs and budgets", COSTS),
    ("The audit", AUDIT),
    ("Callers, what operators do, and what leaves", (CALLERS[0], *PROOF, *SEEING, *CALLERS[1:])),
    ("Models", MODELS),
    ("Execution on the premises", EXECUTION),
    ("Versions of models", REGISTRIES),
    ("Settings, explanations and stops", OPERATIONS),
    ("Several workers", WORKERS),
    ("Shadow policies", SHADOWS),
    ("The console", CONSOLE),
    ("Metrics, traces and logs", SIGHT),
)


def every() -> tuple[Behaviour, ...]:
    return tuple(one for _, some in EVERY for one in some)
