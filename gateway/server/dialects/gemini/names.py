"""Names of fields: Google's JSON has them in camel case, and takes them as they are in its
protocol buffers, with underscores."""

from __future__ import annotations

from gateway.core.errors import InvalidField
from gateway.core.types import JsonDocument


def camel(block: JsonDocument, where: str) -> JsonDocument:
    """The same object with the names of its fields in camel case. Raises InvalidField where a field
    stands there under both names."""
    if not any("_" in name for name in block):
        return block
    made = {_camel(name): value for name, value in block.items()}
    if len(made) != len(block):
        raise InvalidField(where, "has a field twice, under both forms of its name")
    return made


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join([word[:1].upper() + word[1:] for word in others])
