"""From a checked version to one that serves, or back to the one before.

In this order: a note of what is about to happen, the whole directory by one rename, the server is
told to load it, the canary is asked of the server that serves, the note goes. The version before
serves until the new one has loaded, and again when the canary fails. Whoever is killed in between
leaves the note, and the next one finishes what it says.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.config import ConfigError
from gateway.models import configs, versions
from gateway.models.declaration import FILE, Declaration
from gateway.models.registry import RegistryError, UnfitVersion
from gateway.models.registry.server import Server, ServerError
from gateway.models.registry.workshop import Pending, Workshop, write

CONFIG = "config.pbtxt"


@dataclass(frozen=True, slots=True)
class ServersUpdated:
    """Of the servers that run over the repository: which serve the version now."""

    serving: tuple[str, ...] = ()
    later: tuple[str, ...] = ()  # from their next start on


def install(
    workshop: Workshop,
    staged: Path,
    version: int,
    declaration: Declaration,
    text: bytes,
    servers: Sequence[Server],
) -> ServersUpdated:
    """The model.yaml of a further version is its own; that of a first one is the model's. Raises
    Unfit when a server refuses the version; the one before serves then."""
    fresh = not (workshop.model / FILE).exists()
    generated = configs_generated(workshop)
    workshop.note(Pending(version, fresh))
    if not fresh:
        write(staged / FILE, text)
    workshop.put_in(staged, version)
    if not (workshop.model / CONFIG).exists():
        _describe(workshop, declaration, text)
    elif generated:
        configs.write(workshop.model, declaration)
    updated = _confirmed(workshop, Pending(version, fresh), declaration, servers)
    workshop.forget_withdrawn(version)
    workshop.note(None)
    return updated


def serve(
    workshop: Workshop, version: int, fresh: bool, servers: Sequence[Server]
) -> ServersUpdated:
    """A version that was built in the repository. Raises Unfit as `install` does."""
    pending = Pending(version, fresh)
    workshop.note(pending)
    declaration = versions.declared(workshop.model, version)
    updated = _confirmed(workshop, pending, declaration, servers)
    workshop.note(None)
    return updated


def configs_generated(workshop: Workshop) -> bool:
    """Whether the configs are those that some version's model.yaml stands for. What people have
    written by hand stays, whichever version serves."""
    for number in workshop.versions():
        with contextlib.suppress(ConfigError):
            if not configs.stale(workshop.model, versions.declared(workshop.model, number)):
                return True
    return False


def _confirmed(
    workshop: Workshop, pending: Pending, declaration: Declaration, servers: Sequence[Server]
) -> ServersUpdated:
    try:
        return confirm(workshop, declaration, pending.version, servers)
    except ServerError as exc:
        _undo(workshop, pending, servers)  # guard: R2.failed-version
        raise UnfitVersion(
            f"version {pending.version} of {workshop.name} was taken out again: {exc}. "
            f"{_what_serves(workshop)}"
        ) from None


def confirm(
    workshop: Workshop, declaration: Declaration, version: int, servers: Sequence[Server]
) -> ServersUpdated:
    """Every server that can be told serves this version, and answers the canary with it."""
    serving, later = [], []
    for server in servers:
        if not server.accepts_versions:
            later.append(server.url)
            continue
        server.load(workshop.name, version)
        server.ask(declaration, version, 1 if declaration.batch else 0)  # guard: R2.serving-canary
        serving.append(server.url)
    return ServersUpdated(tuple(serving), tuple(later))


def recover(workshop: Workshop, servers: Sequence[Server]) -> None:
    """What one that was killed left half done: the version stays if its canary passes now."""
    pending = workshop.pending
    if pending is None:
        return
    if pending.version in workshop.versions():
        try:
            if not all((workshop.model / name).exists() for name in (FILE, CONFIG)):
                raise ServerError("its model.yaml and config.pbtxt were not written")
            declaration = versions.declared(workshop.model, pending.version)
            if configs_generated(workshop):
                configs.write(workshop.model, declaration)
            confirm(workshop, declaration, pending.version, servers)
        except ServerError:
            _undo(workshop, pending, servers)
    workshop.note(None)


def roll_back(
    workshop: Workshop, to: int | None, servers: Sequence[Server]
) -> tuple[int, ServersUpdated]:
    """The version before, or the one that is named, serves, by its own model.yaml and canary.
    Raises RegistryError."""
    target = chosen(workshop, to)
    generated = configs_generated(workshop)
    back = target in workshop.withdrawn() and target not in workshop.versions()
    out = [v for v in reversed(workshop.versions()) if v > target]
    if back:
        workshop.bring_back(target)
    for version in out:  # the latest first: whatever is served between is whole
        workshop.take_out(version)
    try:
        declaration = versions.declared(workshop.model, target)
        if generated:
            configs.write(workshop.model, declaration)
        return target, confirm(workshop, declaration, target, servers)
    except (ServerError, ConfigError) as exc:
        for version in reversed(out):
            workshop.bring_back(version)
        if back:
            workshop.take_out(target)
        if generated:
            configs.write(workshop.model, versions.declared(workshop.model))
        _reload(workshop, servers)
        raise RegistryError(
            f"version {target} of {workshop.name} does not work either, so nothing was changed: "
            f"{exc}. {_what_serves(workshop)}"
        ) from None


def take_out(workshop: Workshop, numbers: Sequence[int]) -> None:
    """The next server to start serves what is left; running ones are not notified."""
    with _configs_following(workshop):
        for version in numbers:
            workshop.take_out(version)
    workshop.note(None)


def bring_back(workshop: Workshop, numbers: Sequence[int]) -> None:
    """Versions that were taken out, for the next server to start."""
    with _configs_following(workshop):
        for version in numbers:
            workshop.bring_back(version)


@contextlib.contextmanager
def _configs_following(workshop: Workshop) -> Iterator[None]:
    """Behind a change of versions the generated configs are those of the one that serves then."""
    generated = configs_generated(workshop)
    yield
    if generated and workshop.versions():
        configs.write(workshop.model, versions.declared(workshop.model))


def chosen(workshop: Workshop, to: int | None) -> int:
    """What a rollback goes to."""
    present = workshop.versions()
    if to is None:
        if len(present) < 2:
            raise RegistryError(
                f"{workshop.name} has no version before {present[-1] if present else 'any'} here; "
                "pull one, or name one that was rolled back (--to)"
            )
        return present[-2]
    if to not in present and to not in workshop.withdrawn():
        known = ", ".join(map(str, sorted({*present, *workshop.withdrawn()}))) or "none"
        raise RegistryError(f"{workshop.name} has no version {to} here; there are: {known}")
    return to


def _describe(workshop: Workshop, declaration: Declaration, text: bytes) -> None:
    """config.pbtxt last: without it Triton passes the model over."""
    if not (workshop.model / FILE).exists():
        write(workshop.model / FILE, text)
    pages = configs.generated(workshop.model, declaration)
    for path in sorted(pages, key=lambda path: path.name == CONFIG):
        path.parent.mkdir(exist_ok=True)
        write(path, pages[path].encode())


def _undo(workshop: Workshop, pending: Pending, servers: Sequence[Server]) -> None:
    generated = configs_generated(workshop)
    if pending.version in workshop.versions():
        if pending.fresh:
            (workshop.model / CONFIG).unlink(missing_ok=True)
        workshop.take_out(pending.version)
    if generated and not pending.fresh:
        configs.write(workshop.model, versions.declared(workshop.model))
    if pending.fresh:
        with contextlib.suppress(ConfigError):
            golden = versions.declared(workshop.model).verify.golden
            (workshop.model / golden).unlink(missing_ok=True)
        (workshop.model / FILE).unlink(missing_ok=True)
        shutil.rmtree(workshop.model / "configs", ignore_errors=True)
        with contextlib.suppress(OSError):  # there is something else in it
            workshop.model.rmdir()
    _reload(workshop, servers)
    workshop.note(None)


def _reload(workshop: Workshop, servers: Sequence[Server]) -> None:
    """The version before is loaded already, or loads as it did before; nothing else can be done
    here if it does not."""
    present = workshop.versions()
    for server in servers:
        if server.accepts_versions and present:
            try:
                server.load(workshop.name, present[-1])
            except ServerError as exc:
                raise RegistryError(
                    f"Triton did not go back to version {present[-1]} of {workshop.name}: {exc}. "
                    "Restart the gateway, which loads it"
                ) from None


def _what_serves(workshop: Workshop) -> str:
    present = workshop.versions()
    return f"Version {present[-1]} serves" if present else "No version serves"
