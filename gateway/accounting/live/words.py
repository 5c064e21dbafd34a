"""Every code of a record in plain words: for the console and for the demo's report."""

from __future__ import annotations

from gateway.core.types import is_onprem

ONPREM, CLOUD, NONE = "onprem", "cloud", "none"

_WHY = {
    (ONPREM, "restricted"): "restricted data may not leave",
    (ONPREM, "onprem_room"): "clear; on-prem had room",
    (ONPREM, "onprem_only"): "clear; no cloud could take it",
    (ONPREM, "latency_critical"): "clear; too urgent for the cloud",
    (ONPREM, "failover"): "a first attempt failed",
    (CLOUD, "spill_queue"): "clear; the on-prem queue was full",
    (CLOUD, "spill_deadline"): "clear; on-prem would have been late",
    (CLOUD, "spill_slow"): "clear; its on-prem server had become slow",
    (CLOUD, "spill_rule"): "clear; the rule in the settings sends it there",
    (CLOUD, "spill_unavailable"): "clear; no on-prem server could take it",
    (CLOUD, "failover"): "clear; on-prem failed, cloud took over",
    (CLOUD, "cloud_only"): "clear; only the cloud has its model",
    (NONE, "onprem_unavailable_restricted"): "503, retry later: never to the cloud",
    (NONE, "upstream_unreachable"): "its server died; too late for another",
    (NONE, "upstream_failed"): "its server failed; too late for another",
    (NONE, "upstream_timeout"): "its server went silent",
    (NONE, "upstream_busy"): "its server takes no more for now",
    (NONE, "upstream_refused"): "its server refused the call itself",
    (NONE, "upstream_credentials"): "its server does not accept the gateway's key",
    (NONE, "model_failed"): "the model failed on this call",
    (NONE, "owner_lost"): "the gateway that owns its server went away",
    (NONE, "deadline_exceeded"): "its latency budget ran out",
    (NONE, "deadline_exceeded_in_queue"): "its budget ran out waiting on-prem",
    (NONE, "deadline_unmeetable"): "refused: sure to be late",
    (NONE, "saturated"): "every queue was full",
    (NONE, "tenant_saturated"): "its tenant has too many calls at once",
    (NONE, "capability"): "400: nowhere that it may go offers what it asks for",
    (NONE, "queue_full"): "its queue was full; retry later",
    (NONE, "cloud_full"): "only the cloud was left, and was full",
    (NONE, "no_eligible_endpoint"): "no endpoint could take it",
    (NONE, "spill_stopped"): "the cloud was closed by the kill switch",
    (NONE, "spill_budget"): "the money for the cloud is spent",
    (NONE, "ledger_down"): "only the cloud was left, and the ledger cannot be written",
    (NONE, "tenant_spill_budget"): "its tenant's money for the cloud is spent",
    (NONE, "unknown_blocked"): "it could not be read, and such calls are refused",
    (NONE, "hook_refused"): "a hook of the operator's refuses it",
    (NONE, "hook_failed"): "a hook of the operator's does not answer",
    (NONE, "record_unwritable"): "its record could not be written, so it was not answered",
    (NONE, "draining"): "the gateway is stopping",
    (NONE, "caller_left"): "its caller gave up",
    (NONE, "internal"): "a bug: the log of the gateway says where",
}

VETOES = {
    "restricted": "restricted data may never go there",
    "spill_off": "the settings let nothing leave (routing.spill: false, or policy: onprem_only)",
    "placement": "its caller or its key keeps it out of that zone",
    "not_admitted": "the class of its data does not admit that zone",
    "stateful": "it belongs to a sequence, and sequences stay on the premises",
    "protocol": "it does not speak what the call is in",
    "capability": "it cannot honour something that the call asks for",
    "version": "it serves another version of the model",
    "down": "it was down",
    "drained": "an operator drained it: no new calls",
    "slow": "it had become many times slower than usual",
    "ejected": "it had failed inferences and is left alone for a while",
    "unavailable": "it was not available",
    "queue_full": "it was full",
    "cloud_full": "it had as many calls as it takes",
    "spill_stopped": "the kill switch was on: nothing leaves",
    "spill_budget": "the money for the cloud is spent",
    "tenant_spill_budget": "its tenant's money for the cloud is spent",
    "ledger_down": "nobody could say what is left of the budgets",
}

OUT = frozenset({"down", "drained", "slow", "ejected", "unavailable", "queue_full", "cloud_full"})
"""Vetoes that are of the endpoint and not of the call."""

VERDICTS = {
    "clear": "read in full, and nothing in it restricts",
    "entities": "it holds data that restricts",
    "pseudonymised": "what restricted it was replaced by surrogates before it left",
    "public_model": "its model is declared public",
    "unmeasured_language": "it is in a language that names are not searched in",
    "labelled": "its caller says that it is restricted",
    "tainted": "it goes on with a conversation that was restricted before",
    "taint_lost": "it may go on with a restricted conversation that is not remembered any more",
    "late": "it could not be read in the time for that, so it counts as restricted",
    "busy": "too many calls waited to be read, so it counts as restricted",
    "failed": "reading it failed, so it counts as restricted",
    "over_cap": "it has more text than is read, so it counts as restricted",
    "too_many": "it has more that looks like numbers of people than is worth checking",
    "undeclared_model": "its model is not in the settings, so it counts as restricted",
    "tensor_class": "its inputs are not text, and its model does not say that they are clear",
    "tensors_unknown": "nobody has said yet which tensors its model has",
}

_RESULTS = {
    "served": "answered",
    "sent": "is answering",
    "cancelled": "was given up: the caller left, or another was faster",
    "egress_forbidden": "was stopped at the door to the cloud; nothing was sent",
    "down": "went down meanwhile",
    "ejected": "was taken out meanwhile",
    "slow": "became slow meanwhile",
    "drained": "was drained meanwhile",
    "queue_full": "had no room any more",
}


def drawn(zone: str) -> str:
    """As which of three a zone is drawn: on the premises, outside, none."""
    return NONE if zone == NONE else ONPREM if is_onprem(zone) else CLOUD


def why(zone: str, reason: str) -> str:
    return _WHY.get((drawn(zone), reason), "")


def verdict(reason: str) -> str:
    what, _, part = reason.partition(":")
    if what == "unscannable":
        return f"it has a part that cannot be read ({part}), so it counts as restricted"
    if what == "hook":
        return f"the operator's hook {part} restricts it"
    if what == "category":
        return f"it is of the operator's category {part}, which restricts"
    return VERDICTS.get(reason, reason)


def veto(reason: str) -> str:
    return VETOES.get(reason, reason)


def result(reason: str) -> str:
    return _RESULTS.get(reason) or why(NONE, reason) or reason
