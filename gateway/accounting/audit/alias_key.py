"""The key of the aliases that stand in an audit (`gateway.core.aliases`), beside its records.

Who may read the records and not the key learns nothing of what callers' ids said; who removes the
key makes sure that nobody ever does.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from gateway.core import ambient
from gateway.core.aliases import Aliases

NAME = "aliases.key"
_BYTES = 32

log = logging.getLogger(__name__)


def aliases(directory: Path) -> Aliases:
    """Of the audit there; its key is made where there is none. Where it cannot be kept, ids have
    aliases that end with this process."""
    try:
        return Aliases(_stored_key(directory))
    except OSError as exc:
        log.warning("%s: no key of aliases can be kept there (%s): calls of this process are not "
                    "found by their callers' ids", directory, exc.strerror)  # fmt: skip
        return Aliases(ambient.random_bytes(_BYTES))


def known(directory: Path) -> Aliases | None:
    """Of an audit, or of one worker's part of it. None: it has no key. Raises OSError."""
    for place in (directory, directory.parent):
        with contextlib.suppress(FileNotFoundError):
            return Aliases((place / NAME).read_bytes())
    return None


def _stored_key(directory: Path) -> bytes:
    path = directory / NAME
    with contextlib.suppress(FileNotFoundError):
        if len(key := path.read_bytes()) == _BYTES:
            return key
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = directory / f"{NAME}.{os.getpid()}.{ambient.random_hex(8)}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(ambient.random_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another worker was first
            path.hardlink_to(part)
    finally:
        part.unlink()
    return path.read_bytes()
