"""What a version of a model consists of, to the byte: canonical JSON with sizes and SHA-256."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.core.errors import MalformedBody
from gateway.models.registry import DECLARATION, UnfitVersion
from gateway.protocols import strictjson

MOST_BYTES = 4 << 20  # of a manifest: 10,000 files with the longest names
MOST_DECLARATION_BYTES = 1 << 20
MOST_FILES = 10_000
_FORMAT = 1
_MODEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")  # so no "..", nothing hidden, no slash
_MOST_PARTS = 8
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MOST_SIZE = 1 << 50  # no file is as large; sums stay exact
_PIECE = 1 << 20
LEFT_OUT = "__pycache__"  # Python writes it wherever it loads a model's code from


@dataclass(frozen=True, slots=True)
class Content:
    """Some bytes, without the bytes."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    model: str
    version: int
    created: str
    declaration: Content
    files: Mapping[str, Content]  # by their path in the version's directory

    @property
    def size(self) -> int:
        return self.declaration.size + sum(content.size for content in self.files.values())

    def encoded(self) -> bytes:
        document = {
            "format": _FORMAT,
            "model": self.model,
            "version": self.version,
            "created": self.created,
            "declaration": _written(self.declaration),
            "files": [{"path": p, **_written(self.files[p])} for p in sorted(self.files)],
        }
        return _canonical(document)


def from_directory(
    model: str,
    version: int,
    directory: Path,
    declaration: bytes,
    at_s: float,
    samples: Mapping[str, Path] = MappingProxyType({}),
) -> Manifest:
    """Of a version as it lies in a repository, with its samples, by their paths in it. Raises Unfit
    for what no manifest may name."""
    paths = {path: directory / path for path in _version_files(directory)}
    files = {path: read_content(file) for path, file in {**paths, **samples}.items()}
    _check_paths(list(files))
    if not files:
        raise UnfitVersion(f"{directory} has no files: there is nothing to push")
    created = datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = Content(len(declaration), digest(declaration))
    return Manifest(model, version, created, whole, files)


def stray_files(directory: Path) -> Iterator[str]:
    """The paths of the files below a directory. Raises Unfit for what is neither file nor
    directory: a link leads out of what is checked."""
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        if LEFT_OUT in inside.parts:
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UnfitVersion(f"{path} is a link or no plain file; put the file itself there")
        if path.is_file():
            yield inside.as_posix()


def _version_files(directory: Path) -> Iterator[str]:
    """Its declaration is not among them: in a registry that lies beside the files."""
    return (path for path in stray_files(directory) if path != DECLARATION)


def read_content(path: Path, sent: Callable[[int], None] = lambda size: None) -> Content:
    digest, size = hashlib.sha256(), 0
    for piece in pieces(path):
        digest.update(piece)
        size += len(piece)
        sent(len(piece))
    return Content(size, digest.hexdigest())


def pieces(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def differences(
    manifest: Manifest, directory: Path, but: Collection[str] = frozenset()
) -> list[str]:
    """What of a directory is not what the manifest says, `but` some paths; each a few words."""
    named, there = manifest.files.keys() - {*but}, {*_version_files(directory)} - {*but}
    wrong = [f"{path} is missing" for path in sorted(named - there)]
    wrong += [f"{path} is not in the manifest" for path in sorted(there - named)]
    for path in sorted(there & named):
        if read_content(directory / path) != manifest.files[path]:
            wrong.append(f"{path} differs")
    return wrong


def parse(raw: bytes, model: str, version: int) -> Manifest:
    """Raises Unfit unless it is, to the byte, what `encoded` would write, and of this version."""
    try:
        read = _read(strictjson.load_object(raw, max_depth=4))
    except MalformedBody as exc:
        raise UnfitVersion(f"the manifest cannot be read: {exc}; {_PUSH_AGAIN}") from None
    except (KeyError, TypeError, ValueError) as exc:
        raise UnfitVersion(f"the manifest is not one of ours ({exc}); {_PUSH_AGAIN}") from None
    if read.encoded() != raw:  # guard: R1.manifest-spelling
        raise UnfitVersion(f"the manifest is not in its canonical form; {_PUSH_AGAIN}")
    if (read.model, read.version) != (model, version):  # guard: R1.manifest-version
        raise UnfitVersion(
            f"the manifest is of {read.model} version {read.version}, not of {model} version "
            f"{version}; somebody put it in the wrong place"
        )
    return read


_PUSH_AGAIN = "push the version again with `spillway models push`, under a new number"


def _read(document: Mapping[str, Any]) -> Manifest:
    _only(document, {"format", "model", "version", "created", "declaration", "files"})
    if document["format"] != _FORMAT or isinstance(document["format"], bool):
        raise ValueError(f"format is not {_FORMAT}")
    model, version, created = document["model"], document["version"], document["created"]
    if not isinstance(model, str) or not _MODEL.fullmatch(model):
        raise ValueError("model is no name of a model")
    if not isinstance(created, str) or not _CREATED.fullmatch(created):
        raise ValueError("created is no time")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version < 1 << 31:
        raise ValueError("version is no number of a version")
    given = document["files"]
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_FILES:
        raise ValueError(f"files must list from one to {MOST_FILES}")
    paths = [_path(item) for item in given]
    _check_paths(paths)
    files = {p: _content(i, {"path", "size", "sha256"}) for p, i in zip(paths, given, strict=True)}
    return Manifest(model, version, created, _content(document["declaration"]), files)


def _path(item: Any) -> str:
    path = item["path"]
    if not isinstance(path, str):
        raise TypeError("a path is no text")
    return path


def _check_paths(paths: list[str]) -> None:
    """Each stays inside the directory, and no two are one file, wherever they are unpacked."""
    for path in paths:
        parts = path.split("/")
        # guard: R3.path-containment
        if len(parts) > _MOST_PARTS or LEFT_OUT in parts or not all(map(_PART.fullmatch, parts)):
            raise UnfitVersion(
                f"{path[:100]!r} is no path that a version may have: letters, digits and _ . + -, "
                "nothing hidden, no .., no leading slash"
            )
    folded = [path.lower() for path in paths]
    if len(set(folded)) != len(folded):
        raise UnfitVersion(
            "two files of the version have the same name, or one that differs in case only"
        )
    folders = {
        "/".join(path.split("/")[:at]) for path in folded for at in range(1, path.count("/") + 1)
    }
    if folders & set(folded):
        raise UnfitVersion("a file of the version has the name of a directory of it")


def _content(item: Any, keys: frozenset[str] | set[str] = frozenset({"size", "sha256"})) -> Content:
    _only(item, keys)
    size, sha256 = item["size"], item["sha256"]
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MOST_SIZE:
        raise ValueError("a size is no number of bytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError("a sha256 is none")
    return Content(size, sha256)


def is_model(name: str) -> bool:
    return _MODEL.fullmatch(name) is not None


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _only(item: Any, keys: frozenset[str] | set[str]) -> None:
    if not isinstance(item, dict) or item.keys() != keys:
        raise ValueError(f"an object must have {', '.join(sorted(keys))} and nothing else")


def _written(content: Content) -> dict[str, Any]:
    return {"size": content.size, "sha256": content.sha256}


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Sorted keys, no spaces, ASCII: one spelling for one meaning."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
