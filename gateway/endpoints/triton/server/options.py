"""How an embedded Triton is run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from gateway.endpoints.triton.server.ports import ANY_PORTS, TritonPorts


@dataclass(frozen=True, slots=True)
class TritonOptions:
    repositories: tuple[Path, ...]
    models: tuple[str, ...] = ()  # empty: every model of the repositories
    reload: bool = False  # every model, and new versions while it runs (control.py)
    ports: TritonPorts = ANY_PORTS  # kept over restarts
    start_timeout_s: float = 90.0
    stop_grace_s: float = 10.0  # for calls in flight, on aclose
    restart_grace_s: float = 1.0  # a gray server has little left to finish
    poll_s: float = 15.0  # between two looks at what its models run on
    silent_s: float = 10.0  # without any answer for so long it is restarted
    backoff_first_s: float = 0.5
    backoff_cap_s: float = 30.0
    backoff_forgotten_s: float = 60.0  # up for so long: the next pause is the first one again
    http_threads: int = 4
    # Triton can complete a partial config.pbtxt, by starting each model's process twice.
    complete_configs: bool = False
    # Every model instance takes this much of /dev/shm at once and grows by as much: 20 models fit
    # the 64 MiB that containers get by default, with room for tensors.
    shm_per_model_bytes: int = 1 << 20

    def models_expected(self) -> int:
        configs = (path.glob("*/config.pbtxt") for path in self.repositories)
        return len(self.models) or sum(1 for _ in itertools.chain.from_iterable(configs))


@dataclass(frozen=True, slots=True)
class Loading:
    """How far a start has come, for a progress bar."""

    loaded: tuple[str, ...]
    total: int
