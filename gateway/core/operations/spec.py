"""What the gateway knows of one operation."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.structs import value

Asks = Callable[[Any], bool]
Row = tuple[str, Asks]
"""The capability that a field needs, and for which of its values it does."""


@dataclass(frozen=True, slots=True)
class CapabilityNeed:
    """A capability, and the field of the call that needs it."""

    capability: str
    field: str


Needs = Callable[[Mapping[str, Any]], Iterable[CapabilityNeed]]
"""What of a document is a need, such as what an API has no words for."""


class StreamForm(enum.Enum):
    """How an answer comes event by event."""

    NONE = "none"  # it comes whole, always
    CHOICES = "choices"  # ends with `[DONE]`, or when every choice has its `finish_reason`
    RESPONSES = "responses"  # named events, of which the last says that it is the last
    MEDIA = "media"  # typed events of a text, a sound or a picture, up to the end of the body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OperationTranslation:
    """How endpoints serve calls of an operation that they have not, by another that they have."""

    operation: OperationSpec  # that they have
    needs: Needs  # what it has no words for, at any endpoint
    document: Callable[[Mapping[str, Any]], dict[str, Any]]
    """The document of a call that has words there."""
    document_needs: Needs  # what of that OpenAI's own API has no words for
    field: Callable[[Mapping[str, Any], str], str]
    """The field of a document that a field of the translated one was made of."""


def _accept(document: Mapping[str, Any]) -> None:
    """Nothing is required."""


def _none(document: Mapping[str, Any]) -> Iterable[CapabilityNeed]:
    return ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OperationSpec:
    """One operation. `check` raises InvalidField for a body that nobody could serve."""

    name: str  # in records
    task: str  # that a model must have to serve it
    path: str = ""
    """Under which it is asked for, and stands at an endpoint: below /v1, which is the base of an
    endpoint's URL, or beside that; empty: no document asks for it."""
    aliases: tuple[str, ...] = ()  # further paths under which it is asked for
    model_optional: bool = False  # a call may leave it out where one model alone serves the task
    files: Mapping[str, str] = field(default_factory=dict)
    """Fields of files, with what these hold; the first is required. Its body is then a form, and
    else a document."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Further fields that hold what nobody reads, or say where it is; with what that is."""
    answers_bytes: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether the answer to such a document is of whatever media type, and no JSON object; it then
    streams. None: of no document."""
    check: Callable[[dict[str, Any]], None] = _accept
    fields: Mapping[str, Row] = field(default_factory=dict, repr=False)
    needs: Needs = _none
    """What depends on more than the value of one field."""
    stream: StreamForm = StreamForm.NONE
    usage_option: bool = False  # its stream tells its usage where `stream_options` ask for it
    writes: bool = False  # its answer has output tokens
    rows: str = ""  # the field whose items are rows of a batch; empty: a call is one row
    token_field: str = ""  # that may hold token ids in the place of text; empty: none may
    stateful: bool = False  # an endpoint may keep what it answered
    pseudonymised: bool = False  # its calls may leave with surrogates
    metric: str = ""  # in OpenTelemetry's conventions for generative AI; empty: unknown to them
    translation: OperationTranslation | None = (
        None  # for endpoints that serve another operation alone
    )
    canary: Mapping[str, Any] | None = None  # a body that shows whether a model of its task answers


@value
class Translation:
    """What a front has made of a call in an API that is not its operation's own."""

    front: str  # that API, by its name in `core.operations.dialects.fields`
    unsaid: tuple[CapabilityNeed, ...] = ()
    """What the operation's own API has no words for, with the fields as the caller has them. The
    document says it in words of the dialect that has them."""
    turns: tuple[int, ...] = ()
    """Of each message of the document, the caller's message that it stands for; -1: none."""
