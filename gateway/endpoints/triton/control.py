"""How another process of the same user tells a running server to take a new version.

Triton can be told over HTTP and gRPC to load models, and even be sent a model's code. So a server
that may be told wants a header that only its own gateway and whoever can read its private
directory know; without `reload` nothing can be told at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway.endpoints.triton.server.home import ServerDirectory

HEADER = "x-spillway-control"
_FILE = "control.json"


@dataclass(frozen=True, slots=True)
class TritonControl:
    """Where a running server of this machine is told things."""

    http_port: int
    key: str  # empty: it takes nothing while it runs
    repositories: tuple[str, ...]

    def publish(self, home: Path) -> None:
        """For the owner of the directory alone; new in one piece."""
        temporary = home / f".{_FILE}"
        # guard: R4.key-permissions -> with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT |
        #   os.O_TRUNC, 420), 'w') as file:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w"
        ) as file:
            json.dump(asdict(self), file)
        temporary.replace(home / _FILE)


def headers(key: str) -> dict[str, str]:
    """What shows the key over HTTP and over gRPC."""
    return {HEADER: key, f"triton-grpc-protocol-{HEADER}": key} if key else {}


def options(key: str) -> list[str]:
    """Of a server that can be told, by those with the key."""
    # guard: R2.ready-loading without '--strict-readiness=false'
    # guard: R4.http-key without f'--http-restricted-api=model-repository:{HEADER}={key}'
    # guard: R4.grpc-key without f'--grpc-restricted-protocol=model-repository:{HEADER}={key}'
    return [
        "--model-control-mode=explicit",
        "--load-model=*",
        # Else the whole server is not ready while one model loads or unloads a version.
        "--strict-readiness=false",
        f"--http-restricted-api=model-repository:{HEADER}={key}",
        f"--grpc-restricted-protocol=model-repository:{HEADER}={key}",
    ]


def running(repository: Path) -> list[TritonControl]:
    """Of the living servers over a repository, of this user or of the repository's owner."""
    repository = repository.resolve()
    trusted = {os.getuid(), repository.stat().st_uid}
    running_ = []
    for home in sorted(Path(tempfile.gettempdir()).glob(f"{ServerDirectory.PREFIX}*")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            if home.lstat().st_uid in trusted and _lives(home):  # guard: R4.gateway-gone minus 2
                document = json.loads((home / _FILE).read_text())
                paths = tuple(document["repositories"])
                if str(repository) in paths:
                    running_.append(
                        TritonControl(int(document["http_port"]), str(document["key"]), paths)
                    )
    return running_


def _lives(home: Path) -> bool:
    """Its gateway holds a lock for as long as it runs, however it ends."""
    with (home / "lock").open("r") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
