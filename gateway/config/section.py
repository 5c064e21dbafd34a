"""What every section of the settings is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from gateway.core.operations.capabilities import CAPABILITIES
from gateway.core.yaml_document import Where

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[float, Field(ge=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
ProfileName = Literal["patterns", "balanced", "strict"]
_SEGMENT = "[A-Za-z0-9._~@:-]*[A-Za-z0-9_~@:-][A-Za-z0-9._~@:-]*"
_NAME = f"[A-Za-z0-9@~][A-Za-z0-9._~@:-]*(?:/{_SEGMENT})*"
"""Of names in the settings: such as `llama3.2:3b`, `ft:gpt-4o:org::id`, `@cf/meta/llama`. No
segment is empty or of dots alone, so that a name is one in a path, too."""
_NAME_LENGTH = 128
_WHOLE_NAME = re.compile(_NAME)
Name = Annotated[str, Field(pattern=f"^{_NAME}$", max_length=_NAME_LENGTH)]
NAME_WORDS = (
    f"up to {_NAME_LENGTH} letters, digits, '.', '_', '~', ':', '@', '/' and '-', the first a "
    "letter, a digit, '@' or '~', with something other than dots between slashes"
)
"""The form of a name, for messages about one that has another."""

_VISIBLE = "[!-.0-~]"  # ASCII but for the slash
_THERE = f"{_VISIBLE}*[!-\\-0-~]{_VISIBLE}*"
_UPSTREAM = f"/?{_THERE}(?:/+{_THERE})*/?"
_UPSTREAM_LENGTH = 256
_WHOLE_UPSTREAM = re.compile(_UPSTREAM)
UpstreamName = Annotated[str, Field(pattern=f"^{_UPSTREAM}$", max_length=_UPSTREAM_LENGTH)]
"""What an endpoint calls a model: visible ASCII, no segment of dots alone."""


def is_name(text: str) -> bool:
    """Whether settings could call something that."""
    return len(text) <= _NAME_LENGTH and _WHOLE_NAME.fullmatch(text) is not None


def is_upstream_name(text: str) -> bool:
    """Whether an endpoint could call a model that."""
    return len(text) <= _UPSTREAM_LENGTH and _WHOLE_UPSTREAM.fullmatch(text) is not None


class Contradiction(ValueError):
    """Settings that do not go together; `where` leads from the section to the one to mend."""

    def __init__(self, where: Where, message: str) -> None:
        super().__init__(message)
        self.where, self.message = where, message


class KnownWord:
    """For a field that is one of some words; which ones is looked up for each value."""

    def __init__(self, words: Callable[[], Sequence[str]]) -> None:
        self._words = words

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self._words())}

    def _check(self, word: str) -> str:
        words = self._words()
        if word not in words:
            *first, last = map(repr, words)
            raise PydanticCustomError(
                "literal_error",
                "Input should be {expected}",
                {"expected": f"{', '.join(first)} or {last}"},
            )
        return word


Capability = Annotated[str, KnownWord(lambda: list(CAPABILITIES))]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def known(names: Collection[str]) -> str:
    """For messages about a name that leads nowhere."""
    return f"there are: {', '.join(sorted(names)) or 'none'}"
