"""Several workers on one machine: processes with one parent and one pair of ports
(docs/decisions/021-workers-and-clusters.md).

What must not be had once for each of them is shared. `memory` is a piece of memory that all see,
with one lock; in it `counts` has who is inside and what of each limit is used, and `marks` what was
restricted. Budgets are shared by the ledger's leases, a server's queue by `gateway.cluster.turns`,
embedded servers are the parent's (`embedded`), and `peers` is how workers ask each other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OWNER = 1
"""The worker whose queues are those of all."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """Which worker a process is, and how it reaches what all have. Passed on as words."""

    number: int  # from 1
    count: int
    memory: int  # the descriptor of the shared memory
    control: int  # of the socket to the parent
    home: str  # the directory of the workers' sockets
    http_port: int
    grpc_port: int

    def words(self) -> dict[str, Any]:
        return asdict(self)

    def socket_path(self, number: int) -> Path:
        return Path(self.home) / f"worker-{number}.sock"
