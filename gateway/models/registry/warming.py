"""`warm`: what a model does only once, it does before a caller waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.models.declaration import Declaration
from gateway.models.registry import RegistryError, canary
from gateway.models.registry.server import Server


@dataclass(frozen=True, slots=True)
class Warmed:
    rows: int  # 0: the model has no batches
    first_ms: float
    then_ms: float


def warm(server: Server, declaration: Declaration, version: int | None) -> list[Warmed]:
    """Every declared batch size twice. Raises RegistryError for a wrong answer, or none to give."""
    if declaration.canary is None:
        raise RegistryError(
            f"{declaration.name} declares no canary to warm it with; write one in its model.yaml"
        )
    serving = version if version is not None else server.serving(declaration.name)
    return [_twice(server, declaration, serving, rows) for rows in canary.rows_to_warm(declaration)]


def _twice(server: Server, declaration: Declaration, version: int, rows: int) -> Warmed:
    first_s, then_s = (server.ask(declaration, version, rows) for _ in range(2))
    return Warmed(rows, first_s * 1000, then_s * 1000)
