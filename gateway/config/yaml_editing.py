"""A change of one entry of a YAML text that leaves every other character as it stands.

The text is read as nodes, which know where they begin and end; only the lines of the entry are
written. What cannot be changed so (an alias, a tag, a flow mapping with a comment in the way) is
refused: the text that results must mean the document with the entry, and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import yaml

from gateway.core.yaml_document import ConfigError

_WIDTH = 100
_CANNOT = "this file is written in a way that cannot be changed by a command"


def with_entry(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """`section` has the entry under `name`. Raises ConfigError."""
    root = _root(text)
    pair = _pair(root, section)
    if pair is None:
        changed = _appended(text, {section: {name: entry}})
    elif isinstance(pair[1], yaml.MappingNode) and pair[1].value:
        if (own := _pair(pair[1], name)) is not None:
            replace = _replaced_in_flow if pair[1].flow_style else _replaced
            changed = replace(text, own, {name: dict(entry)})
        else:
            add = _added_in_flow if pair[1].flow_style else _added_in_block
            changed = add(text, pair[1], name, entry)
    else:
        changed = _replaced(text, pair, {section: {name: entry}})
    before = _document(text)
    held = before.get(section) or {}
    if not isinstance(held, dict):
        raise ConfigError(_CANNOT)
    return _checked(changed, {**before, section: {**held, name: dict(entry)}})


def with_key(text: str, key: str, value: Any) -> str:
    """The key of the outermost mapping has this value. Raises ConfigError."""
    pair = _pair(_root(text), key)
    new = {key: value}
    changed = _appended(text, new) if pair is None else _replaced(text, pair, new)
    return _checked(changed, {**_document(text), key: value})


def written(document: Mapping[str, Any]) -> str:
    """The document as a block, short mappings and lists in one line."""
    plain = not any(isinstance(value, dict | list) for value in document.values())
    style = False if plain else None  # None makes a mapping of scalars, the outermost too, one line
    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=style, width=_WIDTH)


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """The changed text takes the place of the file in one step, with its owner and its mode.
    Raises what `change` raises, and OSError; the file is as it was then."""
    path = path.resolve()
    with _locked(path) as file:
        text = file.read().decode()
        changed = change(text)
        if changed == text:
            return
        temporary = path.with_name(f".{path.name}.new")
        try:
            with temporary.open("wb") as copy:
                status = os.fstat(file.fileno())
                os.fchmod(copy.fileno(), status.st_mode)
                with contextlib.suppress(PermissionError):
                    os.fchown(copy.fileno(), status.st_uid, status.st_gid)
                copy.write(changed.encode())
                copy.flush()
                os.fsync(copy.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The file that stands there, while no other command of ours changes it."""
    while True:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                yield file
                return


_Pair = tuple[yaml.ScalarNode, yaml.Node]


def _root(text: str) -> yaml.MappingNode:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise ConfigError(_CANNOT) from None
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise ConfigError(_CANNOT)
    return root


def _document(text: str) -> dict[str, Any]:
    document = yaml.safe_load(text)
    return dict(document) if isinstance(document, dict) else {}


def _pair(root: yaml.MappingNode, key: str) -> _Pair | None:
    return next(((k, v) for k, v in root.value if k.value == key), None)


def _appended(text: str, document: Mapping[str, Any]) -> str:
    newline = _newline(text)
    between = "" if not text or text.endswith(newline) else newline
    return text + between + _lines(document, 0, newline)


def _replaced(text: str, pair: _Pair, document: Mapping[str, Any]) -> str:
    """The lines of a key and its value; a comment behind them stands behind the first now."""
    start, end, newline = pair[0].start_mark.index, _end(text, pair[1]), _newline(text)
    block = _lines(document, pair[0].start_mark.column, newline)
    first, _, more = block.strip().partition(newline)
    line_end = _line_end(text, end)
    return (
        text[:start]
        + first
        + text[end:line_end]
        + (newline + more if more else "")
        + text[line_end:]
    )


def _added_in_block(
    text: str, section: yaml.MappingNode, name: str, entry: Mapping[str, Any]
) -> str:
    indent = section.value[0][0].start_mark.column
    end = _line_end(text, _end(text, section.value[-1][1]))
    comment = re.compile(rf"\r?\n {{{indent},}}#[^\r\n]*")  # of the last entry
    while match := comment.match(text, end):
        end = match.end()
    newline = _newline(text)
    block = _lines({name: entry}, indent, newline).removesuffix(newline)
    return text[:end] + newline + block + text[end:]


def _added_in_flow(
    text: str, section: yaml.MappingNode, name: str, entry: Mapping[str, Any]
) -> str:
    end = _end(text, section.value[-1][1])
    return f"{text[:end]}, {_flow({name: dict(entry)})}{text[end:]}"


def _replaced_in_flow(text: str, pair: _Pair, document: Mapping[str, Any]) -> str:
    start, end = pair[0].start_mark.index, _end(text, pair[1])
    return f"{text[:start]}{_flow(document)}{text[end:]}"


def _flow(document: Mapping[str, Any]) -> str:
    """In one line, without the braces."""
    return yaml.safe_dump(
        dict(document), sort_keys=False, default_flow_style=True, width=1 << 20
    ).strip()[1:-1]


def _lines(document: Mapping[str, Any], indent: int, newline: str) -> str:
    lines = written(document).splitlines()
    return "".join(f"{' ' * indent}{line}{newline}" for line in lines)


def _end(text: str, node: yaml.Node) -> int:
    """Behind the last character of a value: a block's own mark is where the next one begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[:end].rstrip())
    return end


def _line_end(text: str, at: int) -> int:
    """Behind a comment on the same line."""
    match = re.compile(r"[^\r\n]*").match(text, at)
    return at if match is None else match.end()


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _checked(changed: str, wanted: Mapping[str, Any]) -> str:
    """Raises ConfigError unless the changed text means what was wanted."""
    try:
        same = yaml.safe_load(changed) == wanted
        keys = [key.value for key, _ in _root(changed).value]
    except (yaml.YAMLError, TypeError, ValueError):
        raise ConfigError(_CANNOT) from None
    if not same or len(keys) != len(set(keys)):
        raise ConfigError(_CANNOT)
    return changed
