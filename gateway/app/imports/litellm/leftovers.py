"""What of LiteLLM's file has no counterpart in Spillway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.app.imports import Imported
from gateway.app.imports.litellm.values import items, mapping, text

_READ = {
    "model_list", "litellm_settings", "router_settings", "general_settings", "guardrails",
    "environment_variables",
}  # fmt: skip
_RECORDS = "counts and traces: docs/reference/metrics.md; decisions: docs/explanation/audit.md"
_ELSEWHERE = {
    "success_callback": _RECORDS,
    "failure_callback": _RECORDS,
    "callbacks": _RECORDS,
    "cache": "answers are not cached: one caller's answer may hold another's data",
    "cache_params": "answers are not cached: one caller's answer may hold another's data",
    "routing_strategy": "where a call goes is decided by data, deadline and cost",
    "database_url": "keys that LiteLLM keeps in its database are not in this file: make them anew",
    "allowed_fails": "what takes an endpoint out, and back, is learnt (docs/explanation/health.md)",
    "cooldown_time": "what takes an endpoint out, and back, is learnt (docs/explanation/health.md)",
    "context_window_fallbacks": "a refusal by the model goes to the caller as it is",
    "content_policy_fallbacks": "a refusal by the model goes to the caller as it is",
}
_SILENT = {
    "drop_params", "set_verbose", "json_logs", "num_retries", "request_timeout", "timeout",
    "fallbacks", "model_group_alias", "master_key", "enable_pre_call_checks",
    "routing_strategy_args", "telemetry", "add_function_to_prompt",
}  # fmt: skip
"""Translated elsewhere in here, or of no use to another program."""


def note_leftovers(document: Mapping[str, Any], imported: Imported) -> None:
    """Say of everything that has no counterpart what to do instead."""
    for section in ("litellm_settings", "router_settings", "general_settings"):
        for key in mapping(document, section):
            if key not in _SILENT:
                what = _ELSEWHERE.get(key, "there is nothing of the kind here")
                imported.left_out(f"{section}.{key}", what)
    for at, rail in enumerate(items(document, "guardrails")):
        _note_guardrail(imported, f"guardrails[{at}]", mapping(rail, "litellm_params"))
    for key in set(document) - _READ:
        imported.left_out(key, "there is nothing of the kind here")
    for key in mapping(document, "environment_variables"):
        imported.left_out(f"environment_variables.{key}", "set it where the gateway is started")


def _note_guardrail(imported: Imported, where: str, params: Mapping[str, Any]) -> None:
    kind = text(params, "guardrail") or "?"
    if kind != "presidio":
        imported.left_out(
            where, f"{kind}: every call is read for personal data here, by rules of its own"
        )
        return
    types = sorted(map(str, mapping(params, "pii_entities_config")))
    remark = "every call is read for personal data, and stays on the premises if it has some"
    if types:
        remark += f"; see that classify.restrict has what you need of {', '.join(types)}"
    imported.check(where, remark)
