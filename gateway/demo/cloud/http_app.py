"""The routes of the HTTP port; what is not here is 404 in the protocol's own shape."""

import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.cloud.chat import Chat
from gateway.demo.cloud.completion import CompletionWriter
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.embeddings import Embeddings
from gateway.demo.cloud.errors import ProviderError, UnservedModel
from gateway.demo.cloud.inference import Inference
from gateway.demo.cloud.models import ModelStore, SimulatedModel
from gateway.demo.cloud.provider import Provider, no_such_route, provider_error, wrong_method
from gateway.demo.cloud.responses import Responses
from gateway.demo.cloud.text_completions import TextCompletions
from gateway.demo.cloud.v2_rest import V2Rest

_STARTED_S = int(time.time())


def http_app(models: ModelStore, conditions: Conditions) -> Provider:
    writer = CompletionWriter(models, conditions)
    listed = ModelList(models)
    openai = [
        Route("/v1/models", listed.all),
        Route("/v1/models/{model}", listed.one),
        Route("/v1/chat/completions", Chat(writer, conditions).__call__, methods=["POST"]),
        Route("/v1/completions", TextCompletions(writer, conditions).__call__, methods=["POST"]),
        Route("/v1/embeddings", Embeddings(models, conditions).__call__, methods=["POST"]),
        Route("/v1/responses", Responses(writer, conditions).__call__, methods=["POST"]),
    ]
    routes = [*openai, *_v2_routes(V2Rest(Inference(models, conditions), conditions))]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ProviderError: provider_error,
            404: no_such_route,
            405: wrong_method,
        },
    )
    return Provider(app, conditions)


def _v2_routes(v2: V2Rest) -> list[Route]:
    routes = [
        Route("/v2", v2.server),
        Route("/v2/health/live", v2.live),
        Route("/v2/health/ready", v2.ready),
    ]
    for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes += [
            Route(model, v2.metadata),
            Route(f"{model}/ready", v2.model_ready),
            Route(f"{model}/config", v2.config),
            Route(f"{model}/stats", v2.stats),
            Route(f"{model}/infer", v2.infer, methods=["POST"]),
        ]
    return routes


class ModelList:
    """Only what the OpenAI protocol can call: text in, text or a vector out."""

    def __init__(self, models: ModelStore) -> None:
        self._models = models

    async def all(self, _: Request) -> Response:
        entries = [_entry(model) for model in self._models.served().values() if _is_listed(model)]
        return JSONResponse({"object": "list", "data": entries})

    async def one(self, request: Request) -> Response:
        model = await self._models.get(request.path_params["model"])
        if not _is_listed(model):
            raise UnservedModel(model.name)
        return JSONResponse(_entry(model))


def _is_listed(model: SimulatedModel) -> bool:
    return model.generates_text or model.embeds_text


def _entry(model: SimulatedModel) -> dict[str, str | int]:
    return {
        "id": model.name,
        "object": "model",
        "created": _STARTED_S,
        "owned_by": "simulated-cloud",
    }
