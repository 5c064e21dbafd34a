"""What Starlette calls for a request that is no inference call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from gateway.server import Services
from gateway.server.http import request_context, request_exchange
from gateway.server.intake import RequestContext

Answer = Callable[[Request, RequestContext], Awaitable[Response]]


def endpoint(answer: Answer, services: Services) -> Callable[[Request], Awaitable[Response]]:
    """`answer` as the end of a route. Starlette tells a coroutine function by its type, which what
    is compiled does not have: so this module is not."""

    async def answered(request: Request) -> Response:
        return await answer(request, request_context(request_exchange(request), services))

    return answered
