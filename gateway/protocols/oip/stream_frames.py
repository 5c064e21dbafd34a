"""`ModelStreamInferResponse` with its answer kept as bytes, so that an answer passes through a
stream as the server wrote it.

On the wire a field of type `bytes` and one of a message are alike. A message type of our own says
`bytes` where the protocol's says `ModelInferResponse`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from gateway.core.errors import UpstreamFailed


def _message_type() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="stream_frame.proto",
        package="spillway",
        syntax="proto2",  # which writes an empty answer, as servers do, where proto3 writes none
    )
    message = file.message_type.add(name="StreamFrame")
    for number, name, kind in (
        (1, "error_message", kinds.TYPE_BYTES),
        (2, "infer_response", kinds.TYPE_BYTES),
    ):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("spillway.StreamFrame"))


_WIRE = _message_type()


@dataclass(frozen=True, slots=True)
class StreamFrame:
    response: bytes = field(default=b"", repr=False)  # a serialised ModelInferResponse
    error: str = field(default="", repr=False)  # empty: none

    @classmethod
    def decode(cls, wire: bytes) -> StreamFrame:
        """Raises UpstreamFailed for what is not such a message."""
        try:
            message = _WIRE.FromString(wire)
        except DecodeError:
            raise UpstreamFailed("the endpoint's stream is not of the protocol") from None
        return cls(message.infer_response, message.error_message.decode(errors="replace"))

    def encode(self) -> bytes:
        frame = _WIRE(infer_response=self.response)
        if self.error:
            frame.error_message = self.error.encode()
        written: bytes = frame.SerializeToString()
        return written
