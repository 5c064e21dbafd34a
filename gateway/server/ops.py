"""The operator's side: health, metrics, status, and `explain`. Content-free, all of it.

What names tenants is for operators; a caller sees its own tenant and the models that it may use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.report import BadQuestion, ReportQuery
from gateway.auth import Caller
from gateway.config.model_catalog import CatalogModel
from gateway.core.errors import Forbidden, GatewayError, MalformedBody, RequestRejected
from gateway.core.operations.registry import by_path
from gateway.core.types import DocumentCall, InferenceRequest, Payload, WireProtocol
from gateway.pipeline.decisions import Explanation
from gateway.protocols import strictjson
from gateway.protocols.http.head import route_path
from gateway.protocols.oip import rest
from gateway.server import Services, intake, labels
from gateway.server.dialects.anthropic import front as anthropic
from gateway.server.dialects.bedrock import front as bedrock
from gateway.server.dialects.cohere import front as cohere
from gateway.server.dialects.gemini import front as gemini
from gateway.server.dialects.head import read_call
from gateway.server.http import Front, authenticate, body_share, read_body, request_exchange
from gateway.server.infer_path import infer_path
from gateway.server.intake import RequestContext
from gateway.server.openai.documents import described_files, read

_EXPLAINED_BYTES = 2 * 1024 * 1024
_DIALECTS = {
    WireProtocol.ANTHROPIC: anthropic.described,
    WireProtocol.BEDROCK: bedrock.described,
    WireProtocol.COHERE: cohere.described,
    WireProtocol.GEMINI: gemini.described,
}
Explain = Callable[[InferenceRequest], Awaitable[Explanation]]
Costs = Callable[[ReportQuery], Awaitable[dict[str, Any]]]
Operates = Callable[[Mapping[str, str], str | None], bool]
"""Whether an operator asks: by the headers and the address of the connection."""


class SiblingsPort(Protocol):
    """The other workers of this gateway."""

    async def metrics(self, tenants: bool, own: bytes) -> bytes: ...
    async def workers(self) -> list[dict[str, Any]]: ...


class NoLedger(GatewayError):
    http_status, grpc_status, reason = 503, "UNAVAILABLE", "no_ledger"


class OpsFront:
    def __init__(
        self,
        services: Services,
        metrics: Callable[[bool], bytes],
        status: Callable[[], dict[str, Any]],
        explain: Explain,
        costs: Costs | None = None,
        operates: Operates = lambda headers, peer: False,
        siblings: SiblingsPort | None = None,
    ) -> None:
        """`metrics` is told whether those that name tenants may be among them."""
        self._siblings = siblings
        self._costs = costs
        self._operates = operates
        self._services = services
        self._metrics = metrics
        self._status = status
        self._explain = explain

    def front(self) -> Front:
        """Of every path that is no protocol's."""
        return Front("", "ops", self.routes(), error_response)

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/readyz", self._readyz, methods=["GET"]),
            Route("/readyz/onprem", self._readyz_onprem, methods=["GET"]),
            Route("/metrics", self._metrics_text, methods=["GET"]),
            Route("/status", self._status_json, methods=["GET"]),
            Route("/spillway/explain", self._explained, methods=["POST"]),
            Route("/spillway/costs", self._costs_json, methods=["GET"]),
        ]

    async def _healthz(self, request: Request) -> Response:
        return _json({"live": True})

    async def _readyz(self, request: Request) -> Response:
        return self._readiness(self._services.inspection.ready())

    async def _readyz_onprem(self, request: Request) -> Response:
        """For whoever sends restricted calls alone."""
        inspection = self._services.inspection
        # guard: O8.http-signal minus 2
        return self._readiness(inspection.ready() and inspection.onprem_up())

    def _readiness(self, ready: bool) -> Response:
        document = {"ready": ready, "onprem_up": self._services.inspection.onprem_up()}
        return _json(document, 200 if ready else 503)

    async def _metrics_text(self, request: Request) -> Response:
        operator = self._operator(request)
        text = self._metrics(operator)
        if self._siblings is not None:
            text = await self._siblings.metrics(operator, text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _status_json(self, request: Request) -> Response:
        document = self._status()
        if self._siblings is not None:
            document["workers"] = await self._siblings.workers()
        if self._operator(request):
            return _json(document)
        return _json(_shown_to(authenticate(request_exchange(request), self._services), document))

    async def _costs_json(self, request: Request) -> Response:
        operator = self._operator(request)
        own = None if operator else authenticate(request_exchange(request), self._services).tenant
        if self._costs is None:
            raise NoLedger("this gateway keeps no ledger")
        query = {name: request.query_params.get(name) for name in ("by", "from", "to", "tenant")}
        try:
            question = ReportQuery.from_arguments(
                query["by"], query["from"], query["to"], query["tenant"]
            )
        except BadQuestion as bad:
            raise RequestRejected(str(bad)) from None
        if own is not None:
            if question.tenant not in (None, own):  # guard: B9.foreign-tenant
                raise Forbidden("this key sees the costs of its own tenant; leave tenant out")
            question = replace(question, tenant=own)  # guard: B9.own-costs
        try:
            return _json(await self._costs(question))
        except BadQuestion as bad:  # its words may name other tenants
            # guard: B9.refusal-names -> why = str(bad) or 'of your tenant there is nothing in these
            #   days'
            why = str(bad) if operator else "of your tenant there is nothing in these days"
            raise RequestRejected(why) from None
        except (LedgerDown, LedgerError):  # its words may name files and hosts
            raise NoLedger("the ledger cannot be read now") from None

    def _operator(self, request: Request) -> bool:
        peer = None if request.client is None else request.client.host
        return self._operates(request.headers, peer)

    async def _explained(self, request: Request) -> Response:
        exchange, limits = request_exchange(request), self._services.limits
        share = body_share(authenticate(exchange, self._services), self._services)
        body = await read_body(exchange, limits, share, _EXPLAINED_BYTES)
        document = strictjson.load_object(body, limits.max_json_depth + 2)
        names = exchange.peer_names
        described_request = described(document, self._services, names)
        return _json(explanation(await self._explain(described_request)))


def _shown_to(caller: Caller, status: dict[str, Any]) -> dict[str, Any]:
    """Without the models that it may not use: their names are none of its business."""

    def its(models: Mapping[str, Any]) -> dict[str, Any]:
        return {name: entry for name, entry in models.items() if caller.may_use(name)}

    # guard: B9.status-models -> return {**status, 'models': status['models'], 'endpoints': [{**one,
    #   'models': its(one['models']), 'runs_on': its(one['runs_on'])} for one in
    #   status['endpoints']], 'queues': [one for one in status['queues'] if
    #   caller.may_use(one['model'])]}
    return {
        **status,
        "models": [name for name in status["models"] if caller.may_use(name)],
        "endpoints": [
            {**one, "models": its(one["models"]), "runs_on": its(one["runs_on"])}
            for one in status["endpoints"]
        ],
        "queues": [one for one in status["queues"] if caller.may_use(one["model"])],
    }


def described(
    document: dict[str, Any], services: Services, names: Sequence[str] = ()
) -> InferenceRequest:
    """The request that `{"path", "headers", "body"}` describes; raises GatewayError as the front
    of that path would."""
    path, body = document.get("path"), document.get("body")
    headers = document.get("headers", {})
    if not isinstance(path, str) or not isinstance(body, dict) or not isinstance(headers, dict):
        raise MalformedBody('send {"path": "/v1/...", "headers": {...}, "body": {...}}')
    given, headers = headers, {str(k).lower(): str(v) for k, v in headers.items()}
    if len(given) != len(headers):
        raise MalformedBody("headers: one of them stands there twice, in different cases")
    arrival = intake.arrive(headers, services)
    caller = intake.identify(headers, services, names)
    payload: Payload
    if (operation := by_path().get(path)) is not None:
        model, payload = read(operation, body, services.catalog, caller=caller)
        payload = replace(payload, files=described_files(operation))
        protocol = WireProtocol.OPENAI
    elif (translated := _translated(path, body, services, caller)) is not None:
        protocol, model, payload = translated
    else:
        infers = infer_path(route_path(path.encode("ascii", "replace")))
        if infers is None:
            raise RequestRejected("path: must be a /v1 route or /v2/models/<model>/infer")
        name, version = infers
        model = services.catalog.find(caller.named(name))
        call = rest.decode_request(strictjson.dumps(body), None, services.limits.max_json_depth)
        payload = replace(call, version=version)
        protocol = WireProtocol.KSERVE_REST
    return intake.build(services, arrival, caller, headers, protocol, model, payload)


def _translated(
    path: str, body: dict[str, Any], services: Services, caller: Caller
) -> tuple[WireProtocol, CatalogModel, DocumentCall] | None:
    """The call of a front of another API; None: the path is none of theirs."""
    for protocol, front in _DIALECTS.items():
        if (translated := front(path, body)) is not None:
            labels.check_document(body)
            return protocol, *read_call(translated, services.catalog, 0, caller)
    return None


def explanation(explanation: Explanation) -> dict[str, Any]:
    """The whole trace as JSON values; no content."""
    decision, refusal = explanation.decision, explanation.refusal
    data_class = explanation.classification.data_class
    return {
        "sensitivity": explanation.classification.sensitivity.value,
        **({"class": data_class} if data_class else {}),
        "classify_reason": explanation.classification.reason,
        "entities": dict(explanation.classification.entities),
        "classify_ms": round(explanation.classification.classify_s * 1000, 3),
        "endpoints": [
            {
                "endpoint": s.endpoint.name,
                "zone": s.endpoint.zone.name,
                "available": s.available,
                "why_not": s.unavailable_why,
                "predicted_ms": round(s.predicted_s * 1000, 3),
                "waiting": s.waiting,
                "in_flight": s.in_flight,
                "cold": s.cold,
                "price_usd": s.price_usd,
                "version": explanation.versions.get(s.endpoint.name, s.served.version),
            }
            for s in explanation.states
        ],
        "decision": None
        if decision is None
        else {
            "zone": decision.attempts[0].zone.name,
            "attempts": [e.name for e in decision.attempts],
            "reason": decision.reason,
            "zones": sorted(z.name for z in decision.zones),
            "vetoes": dict(decision.vetoes),
            "latency_critical": decision.latency_critical,
        },
        "refusal": None
        if refusal is None
        else {
            "reason": refusal.reason,
            "http_status": refusal.http_status,
            "message": refusal.message,
            "waits": explanation.waits,
        },
        "shadows": {name: dict(decision) for name, decision in explanation.shadows.items()},
    }


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    return Response(
        strictjson.dumps({"error": error.message, "reason": error.reason}),
        error.http_status,
        intake.error_headers(arrival, error),
        "application/json",
    )


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(strictjson.dumps(value), status, media_type="application/json")
