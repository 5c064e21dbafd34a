"""`pull`: a version from a registry becomes the one that serves, or nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from gateway.config import ConfigError
from gateway.models import configs, versions
from gateway.models import declaration as declarations
from gateway.models.declaration import Declaration, succession
from gateway.models.declaration.serving import ServingTarget
from gateway.models.registry import (
    RegistryError,
    Sent,
    UnfitVersion,
    fetching,
    graph,
    installing,
    trial,
    workshop,
)
from gateway.models.registry import manifest as manifests
from gateway.models.registry.fetching import Source
from gateway.models.registry.manifest import Manifest
from gateway.models.registry.server import Server
from gateway.models.registry.workshop import Workshop
from gateway.models.variants import evidence


class Stage(Enum):
    """How far a pull has come."""

    ASKING = "asking the registry"
    FETCHING = "fetching"
    CHECKING = "checking"
    TRYING = "trying it in a Triton of its own"
    INSTALLING = "installing"
    DONE = "done"


def _silent(stage: Stage, report: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class RequestedVersion:
    model: str
    version: int | None = None  # the latest if not
    alias: str | None = None
    dry_run: bool = False
    try_first: bool = True


@dataclass(frozen=True, slots=True)
class Pull:
    """What a pull works with."""

    repository: Path
    source: Source
    servers: Callable[[], list[Server]]
    at: Callable[[Stage, str], None] = field(default=_silent)
    sent: Sent = field(default=lambda size: None)
    expected: Callable[[int], None] = field(default=lambda size: None)


@dataclass(frozen=True, slots=True)
class Pulled:
    model: str
    version: int
    before: int | None
    size: int
    installed: bool  # False: it was there, or a dry run
    serving: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def pull(work: Pull, wanted: RequestedVersion) -> Pulled:
    """Raises RegistryError; then whatever served before serves."""
    check_name(wanted.model)
    with workshop.opened(work.repository, wanted.model) as shop:
        servers = work.servers()
        installing.recover(shop, servers)  # guard: R2.pending-canary
        own = own_declaration(shop)
        work.at(Stage.ASKING, wanted.model)
        version = _version(work, wanted, shop)
        manifest = fetching.fetch_manifest(work.source, wanted.model, version)
        before = max(shop.versions(), default=None)
        if version in shop.versions():
            _refuse_another(shop, manifest)
            return Pulled(wanted.model, version, before, manifest.size, installed=False)
        if before is not None and version < before and not wanted.dry_run:
            raise RegistryError(
                f"version {before} of {wanted.model} is here, and Triton serves the highest: "
                f"version {version} would not serve. `spillway models rollback` goes back"
            )
        text = fetching.fetch_declaration(work.source, manifest)
        declared = _declared(text, wanted.model)
        notes: tuple[str, ...] = ()
        if own is not None:
            text, declared, notes = _following(shop, own, text, declared)
        if wanted.dry_run:
            return Pulled(wanted.model, version, before, manifest.size, False, notes=notes)
        staging = shop.staging()
        staged = _staged(work, shop, manifest, declared, staging)
        notes += _tried(work, wanted, declared, staging, staged, manifest)
        work.at(Stage.INSTALLING, f"{wanted.model} {version}")
        updated = installing.install(shop, staged, version, declared, text, servers)
        work.at(Stage.DONE, f"{wanted.model} {version}")
        return Pulled(
            wanted.model,
            version,
            before,
            manifest.size,
            True,
            updated.serving,
            updated.later,
            notes,
        )


def check_name(name: str) -> None:
    if not manifests.is_model(name):
        raise RegistryError(f"{name[:100]!r} is no name of a model: letters, digits and _ . -")


def own_declaration(shop: Workshop) -> Declaration | None:
    """Of the version that serves; None: there is no such model yet."""
    path = versions.declaration_file(shop.model)
    if not path.exists():
        if (shop.model / "config.pbtxt").exists():
            raise RegistryError(f"{path} is missing: declare the model before you pull versions")
        return None
    try:
        return versions.declared(shop.model)
    except ConfigError as exc:
        raise RegistryError(str(exc)) from None


def _declared(text: bytes, model: str) -> Declaration:
    try:
        declaration = declarations.parse(text.decode(), declarations.FILE)
    except (ConfigError, UnicodeDecodeError) as exc:
        raise UnfitVersion(f"the registry's {exc}") from None
    if declaration.name != model:
        raise UnfitVersion(f"the registry's model.yaml is of {declaration.name}, not of {model}")
    return declaration


def _following(
    shop: Workshop, own: Declaration, text: bytes, theirs: Declaration
) -> tuple[bytes, Declaration, tuple[str, ...]]:
    """The model.yaml that the version brings, served as the version before is, and what of it is
    new here."""
    if (what := succession.other_interface(own, theirs)) is not None:
        raise UnfitVersion(
            f"the registry's model.yaml declares other {what} than the one here; a model that "
            "is called differently needs another name"
        )
    local = versions.declaration_file(shop.model).read_text(encoding="utf-8")
    try:
        text = succession.pulled_text(text.decode(), local).encode()
    except ConfigError as exc:
        raise UnfitVersion(f"the registry's model.yaml: {exc}") from None
    declared = _declared(text, own.name)
    new = [key for key in type(own).model_fields if getattr(own, key) != getattr(declared, key)]
    notes = (f"its model.yaml has its own {', '.join(new)}",) if new else ()
    return text, declared, notes


def _version(work: Pull, wanted: RequestedVersion, shop: Workshop) -> int:
    registry = work.source.registry
    if wanted.version is not None:
        return wanted.version
    if wanted.alias is not None:
        return registry.alias(wanted.model, wanted.alias)
    there = registry.versions(wanted.model)
    if not there:
        raise RegistryError(f"the registry has no version of {wanted.model}; push one")
    if there[-1] in shop.withdrawn() and there[-1] not in shop.versions():  # guard: R2.rolled-back
        raise RegistryError(
            f"version {there[-1]} of {wanted.model} was taken out here; name it with --version "
            f"{there[-1]} to have it again"
        )
    return there[-1]


def _refuse_another(shop: Workshop, manifest: Manifest) -> None:
    """What was measured of it here does not make it another version."""
    declared = versions.declared(shop.model, manifest.version)
    measured = {evidence.FILE, declared.verify.golden}
    wrong = manifests.differences(manifest, shop.model / str(manifest.version), measured)
    if wrong:
        raise RegistryError(
            f"version {manifest.version} of {manifest.model} is here and is not the registry's: "
            f"{wrong[0]}. Push yours under another number, or move it away"
        )


def _staged(
    work: Pull, shop: Workshop, manifest: Manifest, declared: Declaration, staging: Path
) -> Path:
    """A repository of this one model and version; returns the version's directory."""
    model = staging / manifest.model
    staged = model / str(manifest.version)
    staged.mkdir(parents=True)
    work.expected(manifest.size - manifest.declaration.size)
    work.at(Stage.FETCHING, f"{manifest.model} {manifest.version}")
    fetching.fetch(work.source, manifest, staged, work.sent)
    work.at(Stage.CHECKING, f"{manifest.model} {manifest.version}")
    graph.check(staged, declared)  # guard: R2.declared-graph
    own = shop.model / "config.pbtxt"
    by_hand = own.exists() and not installing.configs_generated(shop)
    generated = configs.pbtxt(declared, ServingTarget.EMBEDDED)
    (model / "config.pbtxt").write_text(own.read_text() if by_hand else generated)
    return staged


def _tried(
    work: Pull,
    wanted: RequestedVersion,
    declared: Declaration,
    staging: Path,
    staged: Path,
    manifest: Manifest,
) -> tuple[str, ...]:
    notes = () if declared.canary else ("no canary is declared: only that it loads was checked",)
    if not wanted.try_first:
        return (*notes, "it was not tried before it was installed (--no-trial)")
    work.at(Stage.TRYING, f"{wanted.model} {manifest.version}")
    try:
        trial.passed(staging, declared, manifest.version)  # guard: R2.trial-triton
    except trial.NoTrial as exc:
        return (*notes, f"it was not tried before it was installed: {exc}")
    workshop.drop_code_caches(staged)
    if wrong := manifests.differences(manifest, staged):
        raise UnfitVersion(f"its own code changed the version while it was tried: {wrong[0]}")
    return notes
