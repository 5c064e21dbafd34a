"""Shares of a model's calls go to other models, names of a key's own lead to models, and fields
are changed before they are read (K6)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import config
from gateway.auth import Caller
from gateway.auth.caller import caller_from_scope
from gateway.auth.model_split import serving_model
from gateway.config import KeySettings
from gateway.config.model_catalog import Catalog
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import DocumentCall, JsonDocument, Payload, TensorCall
from gateway.server.openai.documents import read
from tests.unit.settings_text import changed, refusal

TEXT = """
endpoints: {gpu: {kind: openai, zone: onprem, url: "http://127.0.0.1:1"}}
models:
  chat:
    task: generate
    split: {next: 0.2, third: 0.1}
    served_by: [{endpoint: gpu}]
  next: {task: generate, served_by: [{endpoint: gpu}]}
  third: {task: generate, served_by: [{endpoint: gpu}]}
"""
ALMA, BERT = Caller("ward", name="alma"), Caller("ward", name="bert")


def served(payload: Payload, caller: Caller = ALMA, text: str = TEXT, request_id: str = "1") -> str:
    catalog = Catalog.from_settings(config.parse(text))
    return serving_model(catalog, catalog.find("chat"), caller, payload, request_id).name


def chat(*contents: str, operation: OperationSpec = CHAT, **more: Any) -> DocumentCall:
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
    return DocumentCall(operation, {"messages": messages, **more})


def test_the_shares_are_those_of_the_settings() -> None:
    models = [served(chat("be kind", f"question {n}")) for n in range(2000)]
    assert 300 < models.count("next") < 500
    assert 140 < models.count("third") < 260
    assert models.count("chat") + models.count("next") + models.count("third") == 2000


def test_a_conversation_keeps_its_model_and_a_tenant_s_are_spread() -> None:
    turns = ("be kind", "first", "answer", "second", "answer", "third")
    firsts = {served(chat(*turns[:length])) for length in range(2, 7)}
    assert len(firsts) == 1
    assert len({served(chat("be kind", f"{n}")) for n in range(40)}) == 3


def test_by_tenant_all_calls_of_one_have_one_model() -> None:
    text = changed("split: {next: 0.2", "sticky: tenant\n    split: {next: 0.2", TEXT)
    assert len({served(chat("be kind", f"{n}"), text=text) for n in range(40)}) == 1
    tenants = {served(chat("a", "b"), Caller(f"t{n}"), text) for n in range(60)}
    assert tenants == {"chat", "next", "third"}


@pytest.mark.parametrize(
    ("before", "after"), [("next: 0.2", "next: 0.3"), ("third: 0.1", "third: 0.4")]
)
def test_a_share_that_grows_takes_nobody_from_itself(before: str, after: str) -> None:
    name = before.partition(":")[0]
    text = changed(before, after, TEXT)
    for n in range(300):
        if served(chat("a", f"{n}")) == name:
            assert served(chat("a", f"{n}"), text=text) == name


def test_responses_that_go_on_by_ids_keep_the_model_of_their_caller() -> None:
    calls = [{"input": "a"}, {"input": "b", "previous_response_id": "r"}, {"conversation": "c"}]
    assert len({served(DocumentCall(RESPONSES, document)) for document in calls}) == 1
    callers = {
        served(DocumentCall(RESPONSES, {"input": "a"}), Caller("t", name=str(n))) for n in range(60)
    }
    assert len(callers) == 3


def test_a_call_of_no_conversation_goes_by_its_id() -> None:
    call = DocumentCall(EMBEDDINGS, {"input": "a"})
    assert len({served(call, request_id=str(n)) for n in range(60)}) == 3
    sequence = TensorCall((), parameters={"sequence_id": 7})
    assert len({served(sequence, request_id=str(n)) for n in range(20)}) == 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("third: 0.1", "third: 0.9", "more than 1 together"),
        ("third: 0.1", "fourth: 0.1", "no other model 'fourth'"),
        ("third: 0.1", "chat: 0.1", "no other model 'chat'"),
        ("  next: {", "  next: {split: {third: 0.1}, ", "next is split itself"),
        ("  next: {task: generate,", "  next: {task: generate, public: true, public_reason: x,",
         "next has another public than chat"),
        ("  next: {task: generate,", "  next: {task: generate, pseudonymise: true,",
         "next has another pseudonymise than chat"),
        ("  next: {task: generate,", "  next: {task: embeddings,", "another task"),
        ("  next: {task: generate,", "  next: {task: generate, sticky: tenant,", "no split"),
    ],
)  # fmt: skip
def test_a_split_that_could_loosen_or_leads_nowhere_is_refused(
    old: str, new: str, problem: str
) -> None:
    assert problem in refusal(changed(old, new, TEXT))


# Names of a key's own


def mapped(name: str, model: str) -> str:
    key = KeySettings.model_validate({"key": "k", "tenant": "t", "model_map": {"gpt-4o": "next"}})
    caller = caller_from_scope("app", "t", key, None)
    document: JsonDocument = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    catalog = Catalog.from_settings(config.parse(TEXT))
    found, _ = read(CHAT, document, catalog, caller=caller)
    assert found.name == model
    return found.name


def test_a_key_s_own_name_leads_to_its_model() -> None:
    mapped("gpt-4o", "next")
    mapped("third", "third")


def test_a_map_to_a_model_that_is_not_there_is_refused() -> None:
    text = TEXT + (
        "undeclared_models: refuse\n"
        'keys: {app: {key: "${PATH}", tenant: t, model_map: {gpt-4o: nowhere}}}\n'
    )
    assert "no model 'nowhere'" in refusal(text)


# Fields


def test_fields_are_changed_before_they_are_read() -> None:
    text = changed(
        "    split: {next: 0.2, third: 0.1}\n",
        "    requests: {set: {temperature: 0, user: app}, default: {max_tokens: 64},"
        " remove: [metadata]}\n",
        TEXT,
    )
    catalog = Catalog.from_settings(config.parse(text))
    messages = [{"role": "user", "content": "hi"}]
    document: JsonDocument = {
        "model": "chat", "messages": messages, "temperature": 1, "metadata": {"patient": "x"},
    }  # fmt: skip
    _, call = read(CHAT, document, catalog, json_bytes=1)
    assert call.document == {
        "model": "chat", "messages": messages, "temperature": 0, "user": "app", "max_tokens": 64,
    }  # fmt: skip
    assert call.json_bytes == 0
    _, call = read(CHAT, {**document, "max_tokens": 8}, catalog)
    assert call.document["max_tokens"] == 8


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ("set: {model: other}", "model says where the call goes"),
        ("remove: [stream]", "stream says where the call goes"),
        ("set: {a: 1}, remove: [a]", "a stands in two of"),
    ],
)
def test_changes_that_say_where_a_call_goes_are_refused(changes: str, problem: str) -> None:
    text = changed("    split: {next: 0.2, third: 0.1}\n", f"    requests: {{{changes}}}\n", TEXT)
    assert problem in refusal(text)


# Hooks


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://guard.example.com/check", "is a public name or address"),
        ("http://8.8.8.8/check", "is a public name or address"),
        ("http://user@127.0.0.1/check", "must not carry a user name"),
    ],
)
def test_a_hook_stands_on_the_premises(url: str, problem: str) -> None:
    hook = f'hooks: {{guard: {{kind: guardrail, url: "{url}"}}}}\n'
    assert problem in refusal(TEXT + hook)
    if "public" in problem:
        allowed = hook.replace("}}", ", i_know: true}}")
        assert config.parse(TEXT + allowed).hooks["guard"].url == url
