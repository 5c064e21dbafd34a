"""What one run is to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loadtests.load.messages import Shape


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Without `arrivals` it is a closed loop with `connections`; with them (seconds from
    the start, ascending) an open one with at most so many. Times in seconds.

    `label` and `load` name the run in reports. `url` is http://host:port, or host:port for gRPC.
    `pids` are the processes under test, whose children count too. `route` is the header of answers
    whose values are counted by the second.
    """

    url: str
    shape: Shape
    label: str = ""
    load: str = ""
    connections: int = 16
    arrivals: Iterator[float] | None = field(default=None, compare=False)
    window_s: float = 5.0
    warm_up_s: float = 1.0
    timeout_s: float = 30.0
    pids: tuple[int, ...] = ()
    route: str | None = None

    @property
    def asked(self) -> str:
        """The load in words."""
        return self.load or f"{self.connections} connections"
