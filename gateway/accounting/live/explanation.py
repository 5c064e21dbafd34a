"""Why a call went where it went: its record, as sentences for whoever has not read the docs.

Pure. The codes stand beside the words, so that they can be looked up and searched for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from gateway.accounting.live import words
from gateway.accounting.live.decisions import DecisionRow
from gateway.accounting.records import SENT

_ZONES = {words.ONPREM: "on the premises", words.CLOUD: "in the cloud"}
Document = dict[str, Any]


def summary(row: DecisionRow) -> Document:
    """One line of the tail."""
    record = row.record
    last = served_by(record)
    zone = words.NONE if last is None else last["zone"]
    reason = record_reason(record)
    return {
        "seq": row.seq,
        "time": record["time"],
        "tenant": record["tenant"],
        "protocol": record["protocol"],
        "model": record["model"],
        "sensitivity": record["sensitivity"],
        "zone": words.drawn(zone),
        "endpoint": None if last is None else last["endpoint"],
        "reason": reason,
        "words": words.why(zone, reason) or reason.replace("_", " "),
        "outcome": record["outcome"],
        "took_ms": _ms(record["took_s"]),
        "tries": len(record["attempts"]),
    }


def explanation(row: DecisionRow) -> Document:
    record = row.record
    return {
        **summary(row),
        "id": record["id"],
        "trace": record["trace"],
        "policy": record["policy"],
        "operation": record["operation"],
        "headline": headline(record),
        "sentences": list(sentences(record)),
        "endpoints": list(endpoints(record)),
        "attempts": [_tried(attempt) for attempt in record["attempts"]],
        "codes": {
            "classify_reason": record["classify_reason"],
            "reason": record["reason"],
            "outcome": record["outcome"],
            "end_reason": record.get("end_reason"),
        },
        "entities": dict(record["entities"]),
        "zones": list(record["zones"]),
    }


def served_by(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The attempt that answers it, or did."""
    if record["outcome"] not in ("served", SENT) or not record["attempts"]:
        return None
    attempt: Mapping[str, Any] = record["attempts"][-1]
    return attempt


def record_reason(record: Mapping[str, Any]) -> str:
    """As its caller was told it: of the placement for an answer, else of the end."""
    if served_by(record) is None:
        return str(record.get("end_reason") or record["reason"] or record["outcome"])
    return "failover" if len(record["attempts"]) > 1 else record["reason"] or ""


def headline(record: Mapping[str, Any]) -> str:
    last = served_by(record)
    reason = record_reason(record)
    if last is None:
        why = words.why(words.NONE, reason) or reason
        return f"Not answered ({record['outcome']}): {why}."
    doing = "Being answered" if record["outcome"] == SENT else "Answered"
    why = words.why(last["zone"], reason) or reason
    return f"{doing} {_where(last['zone'])} by {last['endpoint']}: {why}."


def sentences(record: Mapping[str, Any]) -> Iterator[str]:
    yield _class(record)
    if entities := record["entities"]:
        yield f"Found in it, types and counts only: {_counted(entities)}."
    if (answer := record.get("answer")) is not None:
        yield _answer(answer)
    yield _allowed(record)
    yield from _foreseen(record)
    yield _time(record)
    tried = record["attempts"]
    if not tried:
        yield "It was sent to no endpoint."
    elif len(tried) > 1:
        yield f"It took {len(tried)} tries; zones that it may use only shrink between them."


def _where(zone: str) -> str:
    return _ZONES.get(zone, f"in {zone}")


def _counted(entities: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(entities.items()))


def _answer(answer: Mapping[str, Any]) -> str:
    """Of its answer, what restricts there."""
    text, calls = answer["answer_entities"], answer["tool_call_entities"]
    parts = [f"{_counted(text)}"] if text else []
    if calls:
        parts.append(f"in tool calls {_counted(calls)}")
    if answer["answer_reason"] not in ("clear", "entities"):
        parts.append(f"not all of it could be read ({answer['answer_reason']})")
    masked = f" {answer['masked']} places were masked." if answer["masked"] else ""
    if answer["withheld"]:
        masked = " It was withheld: its key may not see personal data."
    return f"Found in its answer, types and counts only: {'; '.join(parts) or 'nothing'}.{masked}"


def _class(record: Mapping[str, Any]) -> str:
    sensitivity = record["sensitivity"]
    if sensitivity is None:
        return "It was refused before it was read, so it counts as restricted."
    why = words.verdict(record["classify_reason"])
    took = record["classify_s"]
    took_text = "" if took is None else f" Reading it took {_ms(took):g} ms."
    how_far = {
        "everything": "",
        "nothing": " It was not read.",
        "patterns": " It was read as far as was needed for a call that stays.",
    }
    kind = record.get("class", sensitivity)
    return f"It is {kind}: {why}.{how_far.get(record['looked_for'] or '', '')}{took_text}"


def _allowed(record: Mapping[str, Any]) -> str:
    """A call that had nowhere to go has no zones of a decision; its class says enough."""
    if record["sensitivity"] != "clear" and not record.get("admitted"):
        return "It was allowed on the premises only, because it is restricted."
    zones = record["zones"] or record["allowed"]
    outside = [zone for zone in zones if words.drawn(zone) == words.CLOUD]
    if outside:
        return f"It was allowed on the premises and {' and '.join(map(_where, outside))}."
    return "It was allowed on the premises only: its caller, its key or its tenant says so."


def _foreseen(record: Mapping[str, Any]) -> Iterator[str]:
    """What the decision went by, where time decided it."""
    reason, budget = record["reason"], f"its latency budget of {_ms(record['budget_s']):g} ms"
    if reason == "spill_deadline":
        yield (
            f"Not everybody who waited on the premises could be served in time (this call had "
            f"{budget}), and of them it was worth least for the time that it would take there."
        )
    elif reason == "latency_critical":
        yield f"The cloud was not predicted to answer within {budget}."
    elif reason == "spill_unavailable":
        out = {n: why for n, why in record["vetoes"].items() if why in words.OUT}
        vetoes = "; ".join(f"{name}: {words.veto(why)}" for name, why in out.items())
        yield f"No on-prem server could take it{f' ({vetoes})' if vetoes else ''}."


def _time(record: Mapping[str, Any]) -> str:
    budget, took = record["budget_s"], record["took_s"]
    if record["outcome"] == SENT:
        return f"It was sent {_ms(took):g} ms after it came, of {_ms(budget):g} ms."
    verdict = "within" if took <= budget else "over"
    return f"It took {_ms(took):g} ms, {verdict} its latency budget of {_ms(budget):g} ms."


def endpoints(record: Mapping[str, Any]) -> Iterator[Document]:
    """Every endpoint that serves its model, as the decision saw it: those that were tried, those
    that would have come next, those that were passed over."""
    vetoes, tried = record["vetoes"], {a["endpoint"]: a for a in record["attempts"]}
    for name in dict.fromkeys((*tried, *record["predicted_s"], *vetoes)):
        predicted_s = record["predicted_s"].get(name)
        if name in tried:
            verdict, code = "tried", tried[name]["result"]
            result_words = words.result(code)
        elif name in vetoes:
            verdict, code = "passed over", vetoes[name]
            result_words = words.veto(code)
        else:
            verdict, code, result_words = "in reserve", None, "it was not needed"
        yield {
            "endpoint": name,
            "verdict": verdict,
            "code": code,
            "words": result_words,
            "predicted_ms": _ms(predicted_s) if _known(predicted_s) else None,
        }


def _tried(attempt: Mapping[str, Any]) -> Document:
    return {
        "endpoint": attempt["endpoint"],
        "zone": words.drawn(attempt["zone"]),
        "result": attempt["result"],
        "words": words.result(attempt["result"]),
        "queued_ms": _ms(attempt["queued_s"]),
        "took_ms": _ms(attempt["took_s"]),
        "price_usd": attempt["price_usd"],
    }


def _known(predicted_s: float | None) -> TypeGuard[float]:
    """Infinity: no server of it was up."""
    return predicted_s is not None and math.isfinite(predicted_s)


def _ms(seconds: float) -> float:
    """Whole from ten on: more digits only look exact."""
    ms = seconds * 1000
    return round(ms) if ms >= 10 else round(ms, 2)
