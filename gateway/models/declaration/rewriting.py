"""Values written into a model.yaml, whose other lines and comments stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

Values = Mapping[tuple[str, ...], Any]
"""By the keys that lead to a value; of the last one alone the mapping above may lack it."""


def rewritten(text: str, values: Values) -> str:
    """`text`: a valid model.yaml. Raises KeyError where no mapping is above a value."""
    for keys, value in values.items():
        text = _with_value(text, keys, value)
    return text


def _with_value(text: str, keys: Sequence[str], value: Any) -> str:
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()
    for depth, name in enumerate(keys):
        pair = _pair(node, name)
        if pair is None:
            if depth:
                raise KeyError(name)
            line = "" if text.endswith("\n") else "\n"
            return f"{text}{line}{name}: {written}\n"
        key, node = pair
        end = _end(node)
    return f"{text[: key.end_mark.index]}: {written}{text[end:]}"


def _pair(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _end(node: yaml.Node) -> int:
    """Of a value's last character: a block's own mark stands before what follows it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
