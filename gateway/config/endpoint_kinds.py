"""The kinds of endpoints, as data: what the settings ask of each, and what each can serve.

A new kind is a row here and its connector in `endpoints.connectors.kinds`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from gateway.core.operations.capabilities import CAPABILITIES
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.dialects import anthropic, bedrock, cohere, gemini
from gateway.core.operations.dialects.fields import CHAT as CHAT_DIALECT
from gateway.core.operations.dialects.fields import COHERE as COHERE_DIALECT
from gateway.core.operations.dialects.fields import CONVERSE, MESSAGES
from gateway.core.operations.dialects.fields import GEMINI as GEMINI_DIALECT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import Needs, OperationSpec


class Addresses(enum.Enum):
    """What of `url` and `grpc` an endpoint must have."""

    GRPC = "grpc"  # and `url` where it has an HTTP side
    URL = "url"  # alone
    EITHER = "either"  # one of them, and not both


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EndpointKind:
    """What is true of every endpoint of a kind."""

    name: str  # in the settings
    protocol: str  # for messages
    addresses: Addresses
    tensors: bool = False  # serves calls of tensors
    documents: frozenset[OperationSpec] | None = frozenset()  # that it serves; None: all there are
    capabilities: frozenset[str] = frozenset()  # that its connector can hand on
    extensions: bool = False
    """Triton's extensions of the Open Inference Protocol: a model's configuration, the index of the
    repository, statistics; and metrics beside them."""
    embeddable: bool = False  # the gateway can start one by itself
    shares_gpu: bool = False  # unless its settings say otherwise, models share one GPU
    batches: bool = False  # it makes batches of its own, as wide as its settings allow
    provider: str | None = None
    """The description that an endpoint of it has unless its settings name one; empty: it needs
    none; None: it has none."""
    dialect: str = CHAT_DIALECT  # in which its connector says chats, as `dialects.fields` has it
    unsaid: Needs | None = None
    """What of a document its API has no words for, where that is not the API of the document."""
    limited: bool = field(init=False)  # there are documents that it cannot serve in full

    def __post_init__(self) -> None:
        object.__setattr__(self, "limited", not self.capabilities.issuperset(CAPABILITIES))

    def serves(self, operation: OperationSpec) -> bool:
        """Whether it serves documents of the operation."""
        return self.documents is None or operation in self.documents


KINDS: Final[dict[str, EndpointKind]] = {}


def register(kind: EndpointKind) -> EndpointKind:
    """Raises ValueError for a name that another kind has."""
    if kind.name in KINDS:
        raise ValueError(f"there is a kind {kind.name} already")
    KINDS[kind.name] = kind
    return kind


TRITON: Final = register(
    EndpointKind(
        name="triton",
        protocol="the Open Inference Protocol",
        addresses=Addresses.GRPC,
        tensors=True,
        documents=frozenset({CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES}),
        capabilities=frozenset({"dimensions", "truncation"}),
        extensions=True,
        embeddable=True,
        shares_gpu=True,
    )
)
KSERVE: Final = register(
    EndpointKind(
        name="kserve",
        protocol="the Open Inference Protocol",
        addresses=Addresses.EITHER,
        tensors=True,
    )
)
OPENAI: Final = register(
    EndpointKind(
        name="openai",
        protocol="OpenAI",
        addresses=Addresses.URL,
        documents=None,
        capabilities=frozenset(CAPABILITIES),
        batches=True,
        provider="",
    )
)
ANTHROPIC: Final = register(
    EndpointKind(
        name="anthropic",
        protocol="the Anthropic Messages API",
        addresses=Addresses.URL,
        documents=frozenset({CHAT}),
        capabilities=anthropic.OFFERED,
        dialect=MESSAGES,
        unsaid=anthropic.needs,
        batches=True,
        provider="anthropic",
    )
)
GEMINI: Final = register(
    EndpointKind(
        name="gemini",
        protocol="Google's generateContent",
        addresses=Addresses.URL,
        documents=frozenset({CHAT}),
        capabilities=gemini.OFFERED,
        dialect=GEMINI_DIALECT,
        unsaid=gemini.needs,
        batches=True,
        provider="gemini-native",
    )
)
COHERE: Final = register(
    EndpointKind(
        name="cohere",
        protocol="Cohere's Chat API",
        addresses=Addresses.URL,
        documents=frozenset({CHAT}),
        capabilities=cohere.OFFERED,
        dialect=COHERE_DIALECT,
        unsaid=cohere.needs,
        batches=True,
        provider="cohere-native",
    )
)
BEDROCK: Final = register(
    EndpointKind(
        name="bedrock",
        protocol="Amazon Bedrock's Converse API",
        addresses=Addresses.URL,
        documents=frozenset({CHAT}),
        capabilities=bedrock.OFFERED,
        dialect=CONVERSE,
        unsaid=bedrock.needs,
        batches=True,
        provider="bedrock-converse",
    )
)
