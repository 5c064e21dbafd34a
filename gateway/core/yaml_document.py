"""A YAML file as a document whose every value knows its line, its references resolved.

`${NAME}` stands for a variable of the environment, `${file:PATH}` for what is in a file and, where
a secret stands, `${command:PROGRAM ARGUMENT...}` for what a program prints.
Ambiguities that YAML allows are refused: a key that stands twice, tags, a value
that holds itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gateway.core.config_error import ConfigError as ConfigError
from gateway.core.process import references
from gateway.core.process.references import COMMAND, FILE, References, Unresolved

Where = Sequence[int | str]
"""The keys and indexes that lead to a value."""

_REFERENCE = re.compile(rf"\$\{{([A-Za-z_][A-Za-z0-9_]*|(?:{FILE}|{COMMAND})[^}}]+)\}}")
_FORMS = "${NAME}, ${file:PATH} or ${command:PROGRAM ARGUMENT...}"
_ENVIRONMENT = ("reload", "environment")
_SECRETS = frozenset(
    {"key", "api_key", "access_key", "secret_key", "session_token", "client_secret"}
)
_CONNECTIONS = frozenset({"postgres"})  # which may hold a secret, and need not be a reference
_SECRET_MAPPINGS = frozenset({"headers", "query"})
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_SCALARS = tuple(f"tag:yaml.org,2002:{t}" for t in ("bool", "int", "float"))
_TEXTS = tuple(f"tag:yaml.org,2002:{t}" for t in ("str", "timestamp", "value"))
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_MOST_VALUES = 100_000  # aliases can make a small file into a large document


@dataclass(frozen=True, slots=True)
class ConfigFile:
    name: str
    root: yaml.MappingNode
    document: dict[str, Any] = field(repr=False)

    def at(self, where: Where, problem: str) -> str:
        key = ".".join(str(part) for part in where) or "the file"
        return f"{self.name}:{self._line(where)}: {key}: {problem}"

    def _line(self, where: Where) -> int:
        """The line of the deepest node on the way to `where`."""
        node: yaml.Node = self.root
        line = node.start_mark.line + 1
        for part in where:
            step = _step(node, part)
            if step is None:
                return line
            node, line = step
        return line


def _step(node: yaml.Node, part: int | str) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):  # a merged key stands before the one that wins
            if key.value == str(part):
                return value, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1
    return None


def read(path: Path) -> ConfigFile:
    try:
        text = path.read_text("utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {exc.start})") from exc
    return parse(text, str(path))


def parse(text: str, name: str) -> ConfigFile:
    root = _compose(text, name)
    if root is None:
        raise ConfigError(f"{name}:1: the file is empty; it needs at least endpoints and models")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{name}:1: the file must be a mapping of settings")
    reader = _YamlReader(name, References(_environment(root, name)))
    document = reader.value(root)
    if reader.problems:
        raise ConfigError("\n".join(reader.problems))
    return ConfigFile(name, root, document)


def is_secret_name(name: str) -> bool:
    """Of a header or a query parameter, whether its value is a secret by its name."""
    return _SECRET_NAME.search(name) is not None


def sources(path: Path) -> tuple[tuple[Path, ...], bool]:
    """The files that the references of a settings file lead to, and whether it has commands; of a
    file that cannot be read, none."""
    try:
        text = path.read_text("utf-8")
        root = _compose(text, str(path))
    except (OSError, UnicodeDecodeError, ConfigError):
        return (), False
    named = _REFERENCE.findall(text)
    files = [Path(name.removeprefix(FILE)) for name in named if name.startswith(FILE)]
    environment = _environment_file(root)
    return (
        (*files, *([] if environment is None else [environment])),
        any(name.startswith(COMMAND) for name in named),
    )


def _environment(root: yaml.Node, name: str) -> Mapping[str, str]:
    """What `${NAME}` is looked up in. Raises ConfigError."""
    path = _environment_file(root)
    if path is None:
        return os.environ
    try:
        return references.variables(path)
    except Unresolved as exc:
        raise ConfigError(f"{name}:1: {'.'.join(_ENVIRONMENT)}: {exc}") from None


def _environment_file(root: yaml.Node | None) -> Path | None:
    node = root
    for part in _ENVIRONMENT:
        step = None if node is None else _step(node, part)
        node = None if step is None else step[0]
    if isinstance(node, yaml.ScalarNode) and node.tag in _TEXTS and node.value:
        return Path(node.value)
    return None


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{name}:{line}: not valid YAML: {exc.problem}") from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise ConfigError(f"{name}:{line}: not valid YAML: {exc.reason}") from exc
    except RecursionError:
        raise ConfigError(f"{name}:1: not valid YAML: nests too deeply") from None
    return node


class _YamlReader:
    """Nodes in, values out; what is wrong is collected with its line."""

    def __init__(self, name: str, references: References) -> None:
        self.problems: list[str] = []
        self._name = name
        self._references = references
        self._constructor = yaml.constructor.SafeConstructor()
        self._inside: set[int] = set()
        self._visited: set[int] = set()
        self._values = 0

    def value(self, node: yaml.Node, key: str = "", secret: bool = False) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise ConfigError(f"{self._name}:1: the file's aliases make too many values of it")
        if id(node) in self._inside:
            self._wrong(node, key, "holds itself by an alias")
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key, secret or key in _SECRETS)
        self._inside.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            assert isinstance(node, yaml.SequenceNode)
            return [self.value(item, key) for item in node.value]
        finally:
            self._inside.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        if not self._merged(node):
            self._wrong(node, key, "<< must name a mapping, and not one that holds itself")
            return {}
        mapping = {}
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode):
                secret = key in _SECRET_MAPPINGS and is_secret_name(name.value)
                mapping[name.value] = self.value(value, name.value, secret)
            else:
                self._wrong(name, key, "its keys must be names, not lists or mappings")
        return mapping

    def _merged(self, node: yaml.MappingNode) -> bool:
        """Bring in what `<<` names, at the first sight of a mapping. False when it cannot be."""
        if id(node) in self._visited:
            return True
        self._visited.add(id(node))
        self._refuse_duplicates(node)
        try:
            self._constructor.flatten_mapping(node)
        except (yaml.MarkedYAMLError, RecursionError):
            return False
        return True

    def _refuse_duplicates(self, node: yaml.MappingNode) -> None:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if key.value in names:
                self._wrong(key, key.value, "stands here twice")
            names.add(key.value)

    def _scalar(self, node: yaml.ScalarNode, key: str, secret: bool) -> Any:
        if node.tag == _NULL:
            return None
        if node.tag in _TEXTS or (secret and node.tag in _SCALARS):
            return self._text(node, key, secret)
        if node.tag not in _SCALARS:
            self._wrong(node, key, f"the tag {node.tag} has no place here")
            return None
        try:
            return self._constructor.construct_object(node)
        except ValueError:
            self._wrong(node, key, "is not a number")
            return None

    def _text(self, node: yaml.ScalarNode, key: str, secret: bool) -> str:
        text: str = node.value
        if secret and not _REFERENCE.fullmatch(text):
            self._wrong(
                node, key,
                "secrets stand in the environment or in a file, or a command prints them; "
                f"write {_FORMS}",
            )  # fmt: skip
            return ""
        if "${" in _REFERENCE.sub("", text):
            self._wrong(node, key, f"write a reference as {_FORMS}")
            return ""
        known = len(self.problems)
        commands = secret or key in _CONNECTIONS
        text_value = _REFERENCE.sub(
            lambda match: self._referenced(match[1], node, key, commands), text
        )
        if not secret:
            return text_value
        if not text_value.strip() and len(self.problems) == known:
            self._wrong(node, key, f"the secret behind {_shown(text)} is empty")
        return text_value.strip()

    def _referenced(self, what: str, node: yaml.Node, key: str, commands: bool) -> str:
        # guard: T5.command-place
        if what.startswith(COMMAND) and not commands:
            self._wrong(node, key, "commands are run for secrets alone; write the value itself")
            return ""
        try:
            return self._references.value(what)
        except Unresolved as exc:
            self._wrong(node, key, str(exc))
            return ""

    def _wrong(self, node: yaml.Node, key: str, problem: str) -> None:
        at = f"{key}: " if key else ""
        self.problems.append(f"{self._name}:{node.start_mark.line + 1}: {at}{problem}")


def _shown(reference: str) -> str:
    """For messages: arguments of commands may be secret."""
    return "its command" if reference.startswith(f"${{{COMMAND}") else reference
