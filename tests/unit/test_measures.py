"""What calls say of themselves: OpenTelemetry's names for generative AI, and the budget."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.accounting.account import Accounts, CallAccount
from gateway.accounting.metrics import Metrics
from gateway.deadline import Deadline
from gateway.types import (
    ONPREM_ONLY,
    Attempt,
    DocumentCall,
    InferenceRequest,
    Operation,
    Outcome,
    TensorCall,
    WireProtocol,
    Zone,
)
from tests.unit.harness import MemoryLog

SERVED = Attempt("gpu", Zone.ONPREM, ONPREM_ONLY, "served", 0.1, 0.2)
OPERATIONS = {
    Operation.CHAT: "chat",
    Operation.COMPLETIONS: "text_completion",
    Operation.EMBEDDINGS: "embeddings",
    Operation.RESPONSES: "chat",
}


class Books:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.metrics = Metrics()
        self.accounts = Accounts(MemoryLog(), self.metrics, lambda: self.now_s, lambda: "p")

    def open(self, operation: Operation = Operation.CHAT, budget_s: float = 1.0) -> CallAccount:
        call = DocumentCall(operation, {}) if operation is not Operation.INFER else TensorCall(())
        deadline = Deadline(self.now_s + budget_s, lambda: self.now_s)
        return self.accounts.open(
            InferenceRequest(
                "id", WireProtocol.OPENAI, "billing", "m", call, deadline, received_s=self.now_s
            )
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def names(self) -> set[str]:
        return {s.name for family in self.metrics.registry.collect() for s in family.samples}


@pytest.mark.parametrize(("operation", "name"), OPERATIONS.items())
def test_an_attempt_and_its_call_are_operations_of_their_names(
    operation: Operation, name: str
) -> None:
    books = Books()
    account = books.open(operation)
    account.attempted(replace(SERVED, result="upstream_failed"))
    account.attempted(SERVED)
    books.now_s += 0.5
    account.settle(Outcome.SERVED, "failover")
    client = "gen_ai_client_operation_duration_seconds"
    of = {"gen_ai_operation_name": name, "gen_ai_request_model": "m"}
    for error in ("", "upstream_failed"):
        found = books.value(f"{client}_sum", **of, gen_ai_provider_name="gpu", error_type=error)
        assert found == pytest.approx(0.2)
    server = "gen_ai_server_request_duration_seconds_sum"
    assert books.value(server, **of, error_type="") == pytest.approx(0.5)


def test_calls_with_tensors_are_no_operation_of_generative_ai() -> None:
    books = Books()
    account = books.open(Operation.INFER)
    account.attempted(SERVED)
    asyncio.run(account.record_before_release(SERVED))
    account.settle(Outcome.SERVED, "onprem_room")
    assert not [name for name in books.names() if name.startswith("gen_ai") and "_sum" in name]


def test_the_first_token_is_the_first_event_of_a_stream() -> None:
    books = Books()
    account = books.open()
    books.now_s += 0.25
    asyncio.run(account.record_before_release(SERVED))
    books.now_s += 5.0
    account.settle(Outcome.SERVED, "onprem_room")
    found = books.value(
        "gen_ai_server_time_to_first_token_seconds_sum",
        gen_ai_operation_name="chat", gen_ai_provider_name="gpu", gen_ai_request_model="m",
    )  # fmt: skip
    assert found == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("took_s", "within"),
    [(0.05, {"0.1": 1, "1.0": 1}), (0.95, {"0.9": 0, "1.0": 1}), (1.5, {"1.0": 0, "1.5": 1})],
)
def test_a_call_is_told_against_its_own_budget(took_s: float, within: dict[str, int]) -> None:
    books = Books()
    account = books.open(budget_s=2.0)
    account.attempted(SERVED)
    books.now_s += 2.0 * took_s
    account.settle(Outcome.SERVED, "onprem_room")
    for share, count in within.items():
        found = books.value("spillway_budget_used_ratio_bucket", model="m", zone="onprem", le=share)
        assert found == count, share


def test_who_leaves_has_not_used_up_a_budget() -> None:
    books = Books()
    books.open().settle(Outcome.CANCELLED, "caller_left")
    assert "spillway_budget_used_ratio_sum" not in books.names()


def test_calls_are_told_by_who_called() -> None:
    books = Books()
    account = books.open()
    account.attempted(SERVED)
    account.settle(Outcome.SERVED, "onprem_room")
    books.open().settle(Outcome.SHED, "saturated")
    told = "spillway_tenant_calls_total"
    assert books.value(told, tenant="billing", zone="onprem", outcome="served") == 1
    assert books.value(told, tenant="billing", zone="none", outcome="shed") == 1
