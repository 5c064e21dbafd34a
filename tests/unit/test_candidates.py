"""What stays the same for a model is looked up once, and again when the catalog has changed."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import UnknownModel
from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import CapabilityNeed, Translation
from gateway.core.types import DocumentCall, Endpoint, ServedModel, Zone
from gateway.endpoints.candidates import CandidateIndex, price_usd
from tests.unit.harness import MODEL, Rig, cloud, onprem, request, run


def _catalog() -> Catalog:
    return Catalog(
        {MODEL: CatalogModel(MODEL, "infer", ("gpu",), declared=False)},
        {
            "gpu": Endpoint("gpu", Zone.ONPREM, "triton", {MODEL: ServedModel(MODEL)}),
            "cloud": Endpoint("cloud", Zone.CLOUD, "openai", {}),
        },
    )


def test_the_candidates_of_a_model_are_kept_until_the_catalog_changes() -> None:
    async def main() -> None:
        rig, catalog = Rig(onprem(), cloud()), _catalog()
        candidates = CandidateIndex(catalog, rig.registry.states, rig.registry.model_state)
        before = candidates.epoch(MODEL)
        assert [candidate.name for candidate in before.all] == ["gpu"]
        assert candidates.epoch(MODEL) is before
        catalog.add_undeclared("cloud", [MODEL])
        assert [candidate.name for candidate in candidates.epoch(MODEL).all] == ["gpu", "cloud"]
        with pytest.raises(UnknownModel):
            candidates.epoch("no such model")

    run(main())


@pytest.mark.parametrize(
    ("kind", "changes", "special"),
    [
        ("refusing", {}, False),
        ("refusing", {"seed": 1}, True),
        ("openai", {"seed": 1, "tools": [{"type": "function"}]}, False),
        ("triton", {}, False),
        ("triton", {"seed": 1}, False),
        ("triton", {"tools": [{"type": "function"}]}, True),
        ("anthropic", {}, False),
        ("anthropic", {"seed": 1}, True),
        ("anthropic", {"temperature": 1.5}, True),
        ("anthropic", {"temperature": 0.5}, False),
    ],
)
def test_a_call_that_an_endpoint_cannot_serve_has_a_decision_of_its_own(
    kind: str, changes: dict[str, Any], special: bool
) -> None:
    async def main() -> None:
        rig = Rig(onprem(), cloud())
        served = ServedModel(MODEL, refuses={"seed": ()} if kind == "refusing" else {})
        kind_name = kind.replace("refusing", "openai")
        catalog = Catalog(
            {MODEL: CatalogModel(MODEL, "generate", ("cloud",))},
            {"cloud": Endpoint("cloud", Zone.CLOUD, kind_name, {MODEL: served})},
        )
        candidates = CandidateIndex(catalog, rig.registry.states, rig.registry.model_state)
        document = {"messages": [{"role": "user", "content": "hello"}], **changes}
        call = request(payload=DocumentCall(CHAT, document))
        assert candidates.epoch(MODEL).special(call) is special

    run(main())


@pytest.mark.parametrize("unsaid", [(), (CapabilityNeed("reasoning", "thinking"),)])
def test_a_translated_call_that_an_endpoint_would_lose_has_a_decision_of_its_own(
    unsaid: tuple[CapabilityNeed, ...],
) -> None:
    async def main() -> None:
        rig = Rig(onprem(), cloud())
        document = {"messages": [{"role": "user", "content": "hello"}]}
        translation = Translation("messages", unsaid)
        call = request(payload=DocumentCall(CHAT, document, translation=translation))
        catalog = Catalog(
            {MODEL: CatalogModel(MODEL, "generate", ("cloud",))},
            {"cloud": Endpoint("cloud", Zone.CLOUD, "openai", {MODEL: ServedModel(MODEL)})},
        )
        candidates = CandidateIndex(catalog, rig.registry.states, rig.registry.model_state)
        assert candidates.epoch(MODEL).special(call) is bool(unsaid)

    run(main())


@pytest.mark.parametrize(
    ("served", "tokens", "usd"),
    [
        (ServedModel(MODEL, price_usd=0.5), None, 0.5),
        (ServedModel(MODEL, price_usd=0.5), 100, 0.5),
        (ServedModel(MODEL, price_usd_per_1k_tokens=2.0), 500, 1.0),
        (ServedModel(MODEL, price_usd_per_1k_tokens=2.0), 0, 0.0),
        (ServedModel(MODEL, price_usd=0.5, price_usd_per_1k_tokens=2.0), 250, 1.0),
    ],
)
def test_a_call_costs_its_price_and_that_of_its_tokens(
    served: ServedModel, tokens: int | None, usd: float
) -> None:
    assert price_usd(served, tokens) == pytest.approx(usd)
