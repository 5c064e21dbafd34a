"""At a start of the embedded server: a version that does not work gives way to the one before."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.config import ConfigError
from gateway.models import versions
from gateway.models.declaration import FILE

log = logging.getLogger(__name__)

CODE = "model.py"
_RUNS_CODE = re.compile(r'^\s*backend\s*:\s*"python"', re.MULTILINE)


class VersionFallback:
    """Of one repository. Where no version of a model works, which says more of this machine than
    of them, all that were taken out come back."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._taken_out: dict[str, list[int]] = {}
        self._hopeless: set[str] = set()

    def before_start(self) -> None:
        """A model of Python without its code: Triton waits for it for ever, and serves no model."""
        for path in sorted(self._repository.glob("*/config.pbtxt")):
            if not _RUNS_CODE.search(path.read_text("utf-8", errors="replace")):
                continue
            for version in reversed(versions.versions(path.parent)):
                if (path.parent / str(version) / CODE).exists():
                    break
                self._take_out(path.parent.name, version, f"it has no {CODE}")

    def after_start(self, url: str, failed: Mapping[str, str]) -> bool:
        """See `FallBack`."""
        changed = False
        for directory in sorted(path.parent for path in self._repository.glob(f"*/{FILE}")):
            name, there = directory.name, versions.versions(directory)
            if name in self._hopeless or not (len(there) > 1 or name in self._taken_out):
                continue
            problem = failed.get(name) or _wrong_answer(url, directory, there[-1])
            if problem is not None:
                changed |= self._fall_back(name, there, problem.partition("\n")[0][:300])
        return changed

    def _fall_back(self, name: str, there: Sequence[int], problem: str) -> bool:
        if len(there) == 1:
            self._hopeless.add(name)
            log.error("%s: no version works here (%s): none is taken out", name, problem)
            return self._change(name, self._taken_out.pop(name), back=True)
        if not self._take_out(name, there[-1], problem):
            return False
        self._taken_out.setdefault(name, []).append(there[-1])
        return True

    def _take_out(self, name: str, version: int, problem: str) -> bool:
        log.error(
            "%s: version %d does not work (%s): it is taken out, and the one before serves if "
            "there is one; pull it again, or put it right and `spillway models rollback --to %d`",
            name, version, problem, version,
        )  # fmt: skip
        return self._change(name, [version], back=False)

    def _change(self, name: str, numbers: Sequence[int], *, back: bool) -> bool:
        from gateway.models.registry import (  # few starts need it
            RegistryError,
            installing,
            workshop,
        )

        try:
            with workshop.opened(self._repository, name) as shop:
                (installing.bring_back if back else installing.take_out)(shop, numbers)
        except (RegistryError, ConfigError) as exc:
            log.error("%s: its versions stay as they are: %s", name, str(exc))
            return False
        return True


def _wrong_answer(url: str, directory: Path, version: int) -> str | None:
    """What is wrong with the answer of a version to its canary; None: nothing, or it cannot be
    asked."""
    from gateway.models.registry.server import Server, ServerError, WrongAnswer  # as above

    server = Server(url)
    try:
        declared = versions.declared(directory, version)
        if declared.canary is not None and server.serving(directory.name) == version:
            server.ask(declared, version, 1 if declared.batch else 0)
    except WrongAnswer as exc:
        return str(exc)
    except (ServerError, ConfigError):
        return None
    return None
