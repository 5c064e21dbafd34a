"""What the tests of classification share: the real scanner built once, and calls to classify."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.classify import Restricting
from gateway.classify.classifier import Classifier
from gateway.classify.patterns.gate import awaited
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.classify.verdicts.documents import ReadsDocuments
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Clock, Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    DocumentCall,
    Finding,
    InferenceRequest,
    Payload,
    WireProtocol,
)

SHARED = Path(__file__).parents[4] / "shared" / "data" / "pii"


@pytest.fixture(scope="session", autouse=True)
def _compiled_without_giving_way() -> Iterator[None]:
    with awaited():
        yield


@pytest.fixture(scope="session")
def scanner() -> PresidioScanner:
    settings = ClassifySettings()
    return PresidioScanner(settings, Profile.from_settings(settings).types)


class InProcess:
    """The scanner without a process around it; for tests of everything else."""

    def __init__(self, scanner: PresidioScanner) -> None:
        self._scanner = scanner
        self.scanned: list[str] = []

    async def start(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        self.scanned += texts
        return [self._scanner.scan(text) for text in texts]

    async def aclose(self) -> None: ...


MODELS = {
    "chat": CatalogModel("chat", "generate", ("gpu",)),
    "text": CatalogModel("text", "infer", ("gpu",), text_inputs=frozenset({"TEXT"})),
    "open": CatalogModel(
        "open", "infer", ("gpu",), text_inputs=frozenset({"TEXT"}), tensors_clear=True
    ),
    "stray": CatalogModel("stray", "infer", ("gpu",), declared=False),
}


def make_classifier(
    pool: Any,
    settings: ClassifySettings | None = None,
    clock: Clock = time.monotonic,
    documents: ReadsDocuments | None = None,
) -> Classifier:
    catalog = Catalog(models=dict(MODELS))
    return Classifier(settings or ClassifySettings(), catalog, pool, clock, documents=documents)


@pytest.fixture
def classifier(scanner: PresidioScanner) -> Classifier:
    return make_classifier(InProcess(scanner))


def make_request(
    payload: Payload | dict[str, Any],
    model: str = "chat",
    operation: OperationSpec = CHAT,
    budget_s: float = 60.0,
) -> InferenceRequest:
    if isinstance(payload, dict):
        payload = DocumentCall(operation, payload)
    return InferenceRequest(
        id="r-1",
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model=model,
        payload=payload,
        deadline=Deadline.after(budget_s),
    )


class Kit:
    """The helpers above, for test modules: this folder is no package to import from."""

    make_classifier = staticmethod(make_classifier)
    make_request = staticmethod(make_request)
    in_process = InProcess
    shared = SHARED


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
