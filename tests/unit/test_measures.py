"""What calls say of themselves: OpenTelemetry's names for generative AI, and the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.accounting.measures import AT_ONCE, Ended
from gateway.accounting.metrics import Metrics
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.tensors import INFER
from gateway.core.types import (
    ONPREM_ONLY,
    Attempt,
    Cost,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    Outcome,
    TensorCall,
    Usage,
    WireProtocol,
    Zone,
)
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.call_account import CallAccount
from tests.unit.harness import MemoryLog

SERVED = Attempt("gpu", Zone.ONPREM, ONPREM_ONLY, "served", 0.1, 0.2)
OPERATIONS = {
    CHAT: "chat",
    COMPLETIONS: "text_completion",
    EMBEDDINGS: "embeddings",
    RESPONSES: "chat",
}


class Books:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.metrics = Metrics()
        self.accounts = Accounts(MemoryLog(), self.metrics, lambda: self.now_s, "p")

    def open(self, operation: OperationSpec = CHAT, budget_s: float = 1.0) -> CallAccount:
        call = DocumentCall(operation, {}) if operation is not INFER else TensorCall(())
        deadline = Deadline(self.now_s + budget_s, lambda: self.now_s)
        return CallAccount(
            self.accounts,
            InferenceRequest(
                "id", WireProtocol.OPENAI, "billing", "m", call, deadline, received_s=self.now_s
            ),
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def names(self) -> set[str]:
        return {s.name for family in self.metrics.registry.collect() for s in family.samples}


@pytest.mark.parametrize(("operation", "name"), OPERATIONS.items())
def test_an_attempt_and_its_call_are_task_operations_their_names(
    operation: OperationSpec, name: str
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
    account = books.open(INFER)
    account.attempted(SERVED)
    account.begun("gpu")
    account.settle(Outcome.SERVED, "onprem_room")
    assert not [name for name in books.names() if name.startswith("gen_ai") and "_sum" in name]


def test_the_first_token_is_the_first_event_of_a_stream() -> None:
    books = Books()
    account = books.open()
    books.now_s += 0.25
    account.begun("gpu")
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


TOLD = replace(SERVED, usage=Usage(input_tokens=120, output_tokens=9))
OF = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "gpu", "gen_ai_request_model": "m"}


def test_tokens_are_told_by_model_zone_and_direction_as_they_were_counted() -> None:
    books = Books()
    account = books.open()
    account.attempted(replace(SERVED, cost=Cost(usage=Usage(7, 7), estimated=True)))
    account.attempted(TOLD)
    for direction, tokens in (("input", 120), ("output", 9)):
        of = {**OF, "gen_ai_token_type": direction, "zone": "onprem"}
        assert books.value("gen_ai_client_token_usage_sum", **of) == tokens
        assert books.value("gen_ai_client_token_usage_count", **of) == 1, "no estimate"
        assert books.value("gen_ai_client_token_usage_bucket", **of, le="64.0") == (tokens < 65)


def test_the_time_of_each_token_is_that_after_the_first_event() -> None:
    books = Books()
    account = books.open()
    books.now_s += 0.25
    account.begun("gpu")
    books.now_s += 0.4
    account.attempted(TOLD)
    account.settle(Outcome.SERVED, "onprem_room")
    each = "gen_ai_server_time_per_output_token_seconds"
    assert books.value(f"{each}_sum", **OF) == pytest.approx(0.4 / 8)


@pytest.mark.parametrize("usage", [None, Usage(120, 1), Usage(120, 0)])
@pytest.mark.parametrize("outcome", [Outcome.SERVED, Outcome.FAILED])
def test_of_a_stream_without_counted_tokens_no_time_of_each_is_told(
    usage: Usage | None, outcome: Outcome
) -> None:
    books = Books()
    told = replace(SERVED, usage=usage if outcome is Outcome.SERVED else TOLD.usage)
    account = books.open()
    account.begun("gpu")
    account.attempted(told)
    account.settle(outcome, "onprem_room")
    assert not [n for n in books.names() if n.startswith("gen_ai_server_time_per_output_token_se")]


def test_calls_are_counted_some_hundred_at_once_whether_somebody_looks_or_not() -> None:
    books = Books()
    for number in range(2 * AT_ONCE + 7):
        account = books.open()
        account.attempted(replace(SERVED, endpoint=f"gpu{number % 3}"))
        account.settle(Outcome.SERVED, f"why{number % 5}")
        assert len(books.accounts.measures.tried) < AT_ONCE
        assert len(books.accounts.measures.ended) < AT_ONCE
    calls = books.metrics.calls.labels("openai", "m", "unknown", "onprem", "served", "why0")
    assert calls._counted == 2 * AT_ONCE // 5 + 1, "the rest is not counted yet"
    assert books.value("spillway_call_seconds_count", protocol="openai", zone="onprem") == (
        2 * AT_ONCE + 7
    )


def test_accounts_of_older_settings_count_with_those_of_the_newest() -> None:
    books = Books()
    older = books.open()
    books.accounts = Accounts(MemoryLog(), books.metrics, lambda: books.now_s, "q")
    newer = books.open()
    for account in (older, newer):
        account.settle(Outcome.SERVED, "why")
    assert books.value("spillway_calls_in_flight") == 0
    assert books.value("spillway_call_seconds_count", protocol="openai", zone="none") == 2


def test_what_costs_nothing_is_no_series_of_money() -> None:
    books = Books()
    books.open().attempted(SERVED)
    assert "spillway_spend_usd_total" not in books.names()
    books.open().attempted(replace(SERVED, price_usd=0.5))
    assert books.value("spillway_spend_usd_total", endpoint="gpu", zone="onprem") == 0.5


def test_calls_are_counted_some_hundred_at_once_though_nobody_looks() -> None:
    books, watched = Books(), list[Ended]()
    measures = books.accounts.measures
    measures.watch = watched.extend
    for number in range(2 * AT_ONCE + 3):
        account = books.open()
        account.attempted(SERVED)
        account.settle(Outcome.SERVED, str(number))
        assert len(measures.ended) < AT_ONCE
    assert len(watched) == 2 * AT_ONCE
    assert books.value("spillway_calls_in_flight") == 0
    assert [reason for *_, reason, _, _ in watched] == [str(n) for n in range(2 * AT_ONCE + 3)]


def test_a_call_is_under_way_from_its_first_attempt_to_its_end() -> None:
    books, watched = Books(), list[Ended]()
    measures = books.accounts.measures
    measures.watch = watched.extend
    first, second = books.open(), books.open()
    first.starts(Endpoint("gpu", Zone.ONPREM, "triton"), ONPREM_ONLY, 0.0, "")
    assert [record["number"] for record in measures.sent.values()] == [1]
    assert books.value("spillway_calls_in_flight") == 2
    first.attempted(SERVED)
    first.settle(Outcome.SERVED, "onprem_room")
    second.settle(Outcome.SHED, "saturated")
    assert not measures.sent
    assert books.value("spillway_calls_in_flight") == 0
    (sent, end, *_), (alone, same, *_) = watched
    assert (sent["outcome"], sent["number"], end["kind"], end["number"]) == ("sent", 1, "end", 1)
    assert alone is same
