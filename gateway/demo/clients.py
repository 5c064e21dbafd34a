"""The demo's callers: the `openai` SDK and the four clients of `tritonclient`, as they are.

Each call is one call of a client's own method. Retries are off, so that what is counted is what was
sent. tritonclient hands out neither response headers nor gRPC's trailing metadata: those calls are
joined to their decision records by the trace id that they carry.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import openai
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from gateway.demo.observed import UNREACHED, Observed
from gateway.demo.plan import ClientMethod, PlannedCall

THREADS = 24  # at most so many calls of the blocking clients at once
PATIENCE_S = 30.0  # for calls without a budget
_MAX_TOKENS = 48

Answer = tuple[Mapping[str, str], float | None]
"""The response's headers, where a client shows them, and when its first piece came."""


class Clients:
    """`async with Clients(http_port, grpc_port) as clients: await clients.send(call)`"""

    def __init__(self, http_port: int, grpc_port: int) -> None:
        self._http = f"127.0.0.1:{http_port}"
        self._grpc = f"127.0.0.1:{grpc_port}"
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="caller")
        self._own = threading.local()  # the blocking clients are not thread-safe
        self._sends: dict[ClientMethod, Callable[[PlannedCall], Awaitable[Answer]]] = {
            ClientMethod.CHAT: self._chat,
            ClientMethod.CHAT_STREAM: self._chat_stream,
            ClientMethod.COMPLETION: self._completion,
            ClientMethod.RESPONSE: self._response,
            ClientMethod.EMBEDDING: self._embedding,
            ClientMethod.HTTP_AIO: self._http_aio,
            ClientMethod.GRPC_AIO: self._grpc_aio,
            ClientMethod.GRPC_STREAM: self._grpc_stream,
        }

    async def __aenter__(self) -> Clients:
        self._openai = openai.AsyncOpenAI(
            base_url=f"http://{self._http}/v1", api_key="none-needed", max_retries=0
        )
        self._triton_http = triton_http_aio.InferenceServerClient(self._http)
        self._triton_grpc = triton_grpc_aio.InferenceServerClient(self._grpc)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for closing in (self._openai, self._triton_http, self._triton_grpc):
            with contextlib.suppress(Exception):
                await closing.close()

    async def send(self, call: PlannedCall) -> Observed:
        """Never raises but for cancellation: how a call failed is what was observed."""
        if call.method in (ClientMethod.HTTP, ClientMethod.GRPC):
            blocking = (
                self._blocking_http if call.method is ClientMethod.HTTP else self._blocking_grpc
            )
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, _timed, blocking, call)
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(patience_s(call)):
                headers, first_s = await self._sends[call.method](call)
        except Exception as exc:  # noqa: BLE001 - each client has its own tree of errors
            return _failed(call, started_s, exc)
        took_s = time.monotonic() - started_s
        return Observed(call, True, "OK", started_s, took_s, headers, first_s)

    # openai

    async def _chat(self, call: PlannedCall) -> Answer:
        raw = await self._openai.chat.completions.with_raw_response.create(
            model=call.model,
            messages=[{"role": "user", "content": call.text}],
            max_tokens=_MAX_TOKENS,
            extra_headers=call.headers,
        )
        _expect(raw.parse().choices[0].message.content)
        return _placement(raw.headers), None

    async def _chat_stream(self, call: PlannedCall) -> Answer:
        started_s, first_s = time.monotonic(), None
        raw = await self._openai.chat.completions.with_raw_response.create(
            model=call.model,
            messages=[{"role": "user", "content": call.text}],
            max_tokens=_MAX_TOKENS,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=call.headers,
        )
        words = ""
        async for chunk in raw.parse():
            first_s = first_s or time.monotonic() - started_s
            words += "".join(choice.delta.content or "" for choice in chunk.choices)
        _expect(words)
        return _placement(raw.headers), first_s

    async def _completion(self, call: PlannedCall) -> Answer:
        raw = await self._openai.completions.with_raw_response.create(
            model=call.model,
            prompt=call.text,
            max_tokens=_MAX_TOKENS,
            extra_headers=call.headers,
        )
        _expect(raw.parse().choices[0].text)
        return _placement(raw.headers), None

    async def _response(self, call: PlannedCall) -> Answer:
        raw = await self._openai.responses.with_raw_response.create(
            model=call.model,
            input=call.text,
            max_output_tokens=_MAX_TOKENS,
            extra_headers=call.headers,
        )
        _expect(raw.parse().output_text)
        return _placement(raw.headers), None

    async def _embedding(self, call: PlannedCall) -> Answer:
        raw = await self._openai.embeddings.with_raw_response.create(
            model=call.model, input=call.text, extra_headers=call.headers
        )
        _expect(raw.parse().data[0].embedding)
        return _placement(raw.headers), None

    # tritonclient

    async def _http_aio(self, call: PlannedCall) -> Answer:
        inputs = tensors(call, triton_http_aio.InferInput)
        result = await self._triton_http.infer(
            call.model, inputs, request_id=call.note, headers=call.headers
        )
        _expect(result.get_response()["outputs"])
        return {}, None

    async def _grpc_aio(self, call: PlannedCall) -> Answer:
        inputs = tensors(call, triton_grpc_aio.InferInput)
        result = await self._triton_grpc.infer(
            call.model, inputs, request_id=call.note, headers=call.headers
        )
        _expect(result.get_response().outputs)
        return {}, None

    async def _grpc_stream(self, call: PlannedCall) -> Answer:
        started_s, first_s = time.monotonic(), None

        async def one() -> AsyncIterator[dict[str, Any]]:
            yield {
                "model_name": call.model,
                "inputs": tensors(call, triton_grpc_aio.InferInput),
                "request_id": call.note,
            }

        words = b""
        async for result, error in self._triton_grpc.stream_infer(one(), headers=call.headers):
            if error is not None:
                raise error
            first_s = first_s or time.monotonic() - started_s
            if (piece := result.as_numpy("text_output")) is not None:
                words += b"".join(piece.ravel())
        _expect(words)
        return {}, first_s

    def _blocking_http(self, call: PlannedCall) -> None:
        if (client := getattr(self._own, "http", None)) is None:
            client = self._own.http = triton_http.InferenceServerClient(self._http)
        inputs = tensors(call, triton_http.InferInput)
        result = client.infer(call.model, inputs, request_id=call.note, headers=call.headers)
        _expect(result.get_response()["outputs"])

    def _blocking_grpc(self, call: PlannedCall) -> None:
        if (client := getattr(self._own, "grpc", None)) is None:
            client = self._own.grpc = triton_grpc.InferenceServerClient(self._grpc)
        inputs = tensors(call, triton_grpc.InferInput)
        result = client.infer(
            call.model,
            inputs,
            request_id=call.note,
            headers=call.headers,
            client_timeout=patience_s(call),
        )
        _expect(result.get_response().outputs)


def patience_s(call: PlannedCall) -> float:
    """A caller waits a little longer than its budget: an answer that comes late is still seen."""
    return PATIENCE_S if call.budget_ms is None else call.budget_ms / 1000 + 5.0


def tensors(call: PlannedCall, kind: Any) -> list[Any]:
    """A call's inputs in the classes of one client."""
    given: dict[str, Any] = dict(call.tensors)
    if call.text:
        words = np.array([call.text.encode()], dtype=np.object_)
        if call.model == "scribe":
            given = {
                "text_input": words,
                "stream": np.array([True]),
                "max_tokens": np.array([_MAX_TOKENS], dtype=np.int32),
            }
        else:
            given = {"text": words.reshape(1, 1)}
    made = []
    for name, values in given.items():
        tensor = kind(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values)
        made.append(tensor)
    return made


class EmptyAnswer(Exception):
    """A call that was answered with nothing."""


def _expect(content: object) -> None:
    if not content:
        raise EmptyAnswer


def _timed(send: Callable[[PlannedCall], None], call: PlannedCall) -> Observed:
    started_s = time.monotonic()  # in the caller's thread: waiting for one is the demo's own affair
    try:
        send(call)
    except Exception as exc:  # noqa: BLE001 - each client has its own tree of errors
        return _failed(call, started_s, exc)
    return Observed(call, True, "OK", started_s, time.monotonic() - started_s)


def _failed(call: PlannedCall, started_s: float, exc: Exception) -> Observed:
    took_s = time.monotonic() - started_s
    headers: Mapping[str, str] = {}
    status = type(exc).__name__
    if isinstance(exc, openai.APIStatusError):
        status, headers = str(exc.status_code), _placement(exc.response.headers)
    elif isinstance(exc, InferenceServerException):
        status = (exc.status() or UNREACHED).removeprefix("StatusCode.")
    elif isinstance(exc, openai.APIConnectionError | OSError):
        status = UNREACHED
    return Observed(call, False, status, started_s, took_s, headers)


def _placement(headers: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in headers.items() if k.startswith("x-spillway-")}
