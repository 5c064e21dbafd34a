"""The answers of a model as objects of values by the names of outputs, whole or event by event."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from gateway.core.errors import GatewayError, InternalError, NotOffered
from gateway.core.reply import Frame, FrameSource, Handled, Receiver
from gateway.core.types import AT_ONCE_BYTES
from gateway.protocols import strictjson
from gateway.protocols.http import ClientLeft
from gateway.protocols.http.exchange import HttpExchange
from gateway.server.kserve import tensor_values

_log = logging.getLogger(__name__)

_FINAL = "triton_final_response"


def written(frame: Frame, call_id: str) -> bytes:
    """One answer of a model as an object of values; nothing for one without outputs."""
    reply = tensor_values.reply(frame)
    if not reply.outputs:
        return b""
    document: dict[str, Any] = {"id": call_id} if call_id else {}
    document |= {name: value for name, value in reply.parameters.items() if name != _FINAL}
    document |= {"model_name": reply.model, "model_version": reply.version}
    fields = [strictjson.dumps(document)[1:-1]]
    for output in reply.outputs:
        text, count = tensor_values.json_text(output)
        value = text.removeprefix(b"[").removesuffix(b"]") if count == 1 else text
        fields.append(b"%b:%b" % (strictjson.dumps(output.name), value))
    return b"{%b}" % b",".join(fields)


async def _written(frame: Frame, call_id: str) -> bytes:
    if tensor_values.size(frame) > AT_ONCE_BYTES:
        return await asyncio.to_thread(written, frame, call_id)
    return written(frame, call_id)


async def answer_whole(
    exchange: HttpExchange, lines: str, frames: FrameSource, call_id: str
) -> None:
    answers: list[bytes] = []

    async def put(frame: Frame) -> None:
        if answer := await _written(frame, call_id):
            answers.append(answer)
        if len(answers) > 1:
            raise NotOffered(
                "generate expects the model to give one answer; use generate_stream for this model"
            )

    try:
        await frames.deliver(Handled(put))
    finally:
        await asyncio.shield(frames.aclose())
    if not answers:
        raise NotOffered("generate expects the model to give one answer, and it gave none")
    body = answers[0]
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{lines}"
    await exchange.reply_as_taken(200, head, body)


class GeneratedEvents:
    """An event for each answer. What breaks them off is an event of its own, as Triton's."""

    def __init__(self, frames: FrameSource, call_id: str) -> None:
        self._frames, self._call_id = frames, call_id

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        async def put(frame: Frame) -> None:
            answer = await _written(frame, self._call_id)
            if answer and not receiver.put(_event(answer)):
                await receiver.room()

        try:
            await self._frames.deliver(Handled(put))
        except GatewayError as error:
            receiver.put(_event(strictjson.dumps({"error": error.message})))
        except ClientLeft:
            raise
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("an event stream failed: %s", type(exc).__name__)  # its text may be content
            failure = InternalError("the gateway failed while it streamed")
            receiver.put(_event(strictjson.dumps({"error": failure.message})))

    async def aclose(self) -> None:
        await self._frames.aclose()


def _event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data
