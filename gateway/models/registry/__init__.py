"""Where versions of models are kept off this machine, and how they come here and go there.

A version in a registry is `manifest.json`, `model.yaml` and, below `files/`, what stands in the
version's directory of a model repository. The manifest is written last: a version without one is
not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gateway.models.failures import ModelCommandFailed

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
DECLARATION = "model.yaml"
FILES = "files/"

Sent = Callable[[int], None]
"""Told of every piece of bytes that came or went, with its length."""


class RegistryError(ModelCommandFailed):
    """Something is wrong with a registry or with what it has; the message says what to do."""


class RegistryUnreachable(RegistryError):
    """It does not answer, or not now: the same again may work later."""


class RegistryDenied(RegistryError):
    """It does not take the credentials."""


class NotThere(RegistryError):
    """It has no such model, version or file."""


class VersionExists(RegistryError):
    """It has this version already; versions do not change."""


class UnfitVersion(RegistryError):
    """What came is not what was promised, or not what may be served."""


class ModelRegistry(Protocol):
    """One place with versions of models. `path` is one of the names above, or below `files/`."""

    def versions(self, model: str) -> list[int]:
        """Those with a manifest, rising."""

    def alias(self, model: str, alias: str) -> int:
        """The version that a registry calls so. Raises NotThere."""

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        """The paths of a version; None where a registry cannot tell."""

    def read(
        self, model: str, version: int, path: str, start: int
    ) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes from `start` on. What is read after an error may start over from there."""

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        """All parts or none; the manifest last. Raises Taken."""

    def close(self) -> None: ...
