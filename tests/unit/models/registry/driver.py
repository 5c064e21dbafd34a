"""A pull in a process of its own, that can be killed or run out of room.

    driver.py STAGE REPOSITORY SHELF

STAGE is a stage of the pull, at which it kills itself; `load` or `ask`, when the server is told or
asked; `full`, where no file may grow beyond 2 KB; or `whole`.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

from gateway.models.declaration import Declaration
from gateway.models.registry import RegistryError
from gateway.models.registry.fetching import Source
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pulling import Pull, RequestedVersion, Stage, pull
from gateway.models.registry.server import Server, over
from tests.unit.models.registry.rig import NAME


def main(stage: str, repository: Path, shelf: Path) -> int:
    def die(at: str) -> None:
        if at == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    class Deadly(Server):
        def load(self, model: str, version: int) -> None:
            die("load")
            super().load(model, version)

        def ask(self, declaration: Declaration, version: int, rows: int) -> float:
            die("ask")
            return super().ask(declaration, version, rows)

    if stage == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    fetched = 0

    def sent(size: int) -> None:
        nonlocal fetched
        fetched += 1
        if fetched == 2:
            die("in the middle of fetching")

    work = Pull(
        repository,
        Source(DirectoryRegistry(shelf)),
        lambda: [Deadly(found.url, found.key) for found in over(repository, None)],
        lambda at, told: die(at.name),
        sent,
    )
    try:
        pull(work, RequestedVersion(NAME, try_first=stage == Stage.TRYING.name))
    except RegistryError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
