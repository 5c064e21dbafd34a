"""What the tests with unmodified clients share: the addresses, as those clients want them.

The fixture `gateway` gives `.http_url` and `.grpc_target` of a running gateway that serves `minilm`
(embeddings), `scribe` (chat, completions, responses) and `simple` (INPUT0 and INPUT1, INT32[1,16],
to their sum OUTPUT0 and difference OUTPUT1), and knows no keys.
"""

from __future__ import annotations

from typing import Protocol

import pytest


class Gateway(Protocol):
    @property
    def http_url(self) -> str: ...
    @property
    def grpc_target(self) -> str: ...


@pytest.fixture
def gateway_url(gateway: Gateway) -> str:
    return gateway.http_url.rstrip("/")


@pytest.fixture
def grpc_target(gateway: Gateway) -> str:
    return gateway.grpc_target


@pytest.fixture
def openai_url(gateway_url: str) -> str:
    return f"{gateway_url}/v1"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients read these for 127.0.0.1, too."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
