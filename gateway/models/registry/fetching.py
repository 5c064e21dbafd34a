"""A version from a registry into an empty directory, checked while it comes."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.models.registry import (
    DECLARATION,
    FILES,
    MANIFEST,
    SIGNATURE,
    ModelRegistry,
    NotThere,
    RegistryError,
    RegistryUnreachable,
    Sent,
    UnfitVersion,
    signing,
)
from gateway.models.registry import manifest as manifests
from gateway.models.registry.kinds.web import ATTEMPTS, FIRST_PAUSE_S, bounded, retried
from gateway.models.registry.manifest import Content, Manifest
from gateway.models.registry.workshop import sync_below

_SPARE_BYTES = 64 << 20  # left free on the disk, for what else runs there
_PROGRESS_BYTES = 1 << 20  # between two cuts: it goes on, and patience starts anew


@dataclass(frozen=True, slots=True)
class Source:
    """One registry, and what is wanted of what it has."""

    registry: ModelRegistry
    most_bytes: int = 64 << 30
    public_key: Path | None = None
    pause: Callable[[float], None] = time.sleep


def fetch_manifest(source: Source, model: str, version: int) -> Manifest:
    raw = _small(source, model, version, MANIFEST, manifests.MOST_BYTES)
    if source.public_key is not None:  # guard: R3.manifest-signature
        signing.check(raw, _signature(source, model, version), source.public_key)
    manifest = manifests.parse(raw, model, version)
    if manifest.size > source.most_bytes:  # guard: R1.version-size
        raise UnfitVersion(
            f"{model} version {version} has {manifest.size} bytes, more than the "
            f"{source.most_bytes} that this registry may send (max_bytes)"
        )
    return manifest


def fetch_declaration(source: Source, manifest: Manifest) -> bytes:
    raw = _small(
        source, manifest.model, manifest.version, DECLARATION, manifests.MOST_DECLARATION_BYTES
    )
    # guard: R1.declaration-match
    if Content(len(raw), hashlib.sha256(raw).hexdigest()) != manifest.declaration:
        raise UnfitVersion(f"{DECLARATION} is not the one of the manifest; push the version again")
    return raw


def fetch(source: Source, manifest: Manifest, into: Path, sent: Sent) -> None:
    """Every file of the manifest and no other, synced. Raises RegistryError."""
    _refuse_other_files(source, manifest)
    free = shutil.disk_usage(into).free
    if free < manifest.size + _SPARE_BYTES:  # guard: R1.disk-room
        raise RegistryError(
            f"no room for {manifest.model} version {manifest.version}: it has {manifest.size} "
            f"bytes and {into} has {free} free. Make room, then pull again"
        )
    for path, content in manifest.files.items():
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch_one(source, manifest, path, content, target, sent)
    sync_below(into)


def _refuse_other_files(source: Source, manifest: Manifest) -> None:
    there = retried(lambda: source.registry.listing(manifest.model, manifest.version), source.pause)
    if there is None:
        return
    named = {MANIFEST, DECLARATION, *(f"{FILES}{path}" for path in manifest.files)}
    if missing := sorted(named - there):
        raise UnfitVersion(
            f"the registry lacks {missing[0]}, which the manifest names; push it again"
        )
    if more := sorted(there - named - {SIGNATURE}):  # guard: R1.extra-files -> if (more := []):
        raise UnfitVersion(
            f"the registry has {more[0][:200]!r} beside what the manifest names: somebody changed "
            "the version after it was pushed"
        )


def _fetch_one(
    source: Source, manifest: Manifest, path: str, content: Content, target: Path, sent: Sent
) -> None:
    """Goes on where it was cut, a few times."""
    digest, size, cuts, cut_at = hashlib.sha256(), 0, 0, 0
    with target.open("xb") as file:
        while True:
            try:
                at = (manifest.model, manifest.version, f"{FILES}{path}", size)
                with source.registry.read(*at) as pieces:
                    for piece in pieces:
                        size += len(piece)
                        if size > content.size:  # guard: R1.file-length
                            raise UnfitVersion(
                                _differs(path, f"it is larger than {content.size} bytes")
                            )
                        digest.update(piece)
                        file.write(piece)
                        sent(len(piece))
                if size == content.size:
                    break
                raise UnfitVersion(_differs(path, f"it ends after {size} of {content.size} bytes"))
            except RegistryUnreachable:
                cuts = 1 if size - cut_at >= _PROGRESS_BYTES else cuts + 1
                cut_at = size
                if cuts >= ATTEMPTS:
                    raise
                source.pause(FIRST_PAUSE_S * 2 ** (cuts - 1))
        if digest.hexdigest() != content.sha256:  # guard: R1.file-hash
            raise UnfitVersion(_differs(path, "its SHA-256 is another"))
        file.flush()
        os.fsync(file.fileno())


def _differs(path: str, how: str) -> str:
    return (
        f"{path} is not what the manifest says: {how}. Nothing was installed; push the version "
        "again under a new number, or look at who changed it"
    )


def _small(source: Source, model: str, version: int, path: str, most: int) -> bytes:
    def once() -> bytes:
        with source.registry.read(model, version, path, 0) as pieces:
            return bounded(pieces, most, path)

    try:
        return retried(once, source.pause)
    except NotThere:
        known = ", ".join(map(str, source.registry.versions(model))) or "none"
        raise NotThere(
            f"the registry has no {path} for {model} version {version}; its versions: {known}"
        ) from None


def _signature(source: Source, model: str, version: int) -> bytes | None:
    try:
        return _small(source, model, version, SIGNATURE, signing.MOST_BYTES)
    except NotThere:
        return None
