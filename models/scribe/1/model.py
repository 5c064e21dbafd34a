"""Serves `runtime.Runtime` from Triton as a decoupled model, with the tensors of its vLLM backend.

With `stream` each piece is a response of its own; without it the whole text is one. In both cases
an empty response with the final flag comes last. Unlike vLLM's backend it does not repeat the
prompt unless `exclude_input_in_output` is false.
"""

import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from runtime import MAX_TOKENS, Runtime, count_tokens

AT_ONCE = 64
DEFAULT_TOKENS = 64
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


@dataclass(frozen=True, slots=True)
class Call:
    prompt: str
    stream: bool
    max_tokens: int
    seed: int
    repeat_prompt: bool
    wanted: frozenset[str]  # optional outputs

    @classmethod
    def read(cls, request):
        prompt = text(request, "text_input", "")
        try:
            sampling = json.loads(text(request, "sampling_parameters", "{}") or "{}")
            limit = int(sampling.get("max_tokens") or DEFAULT_TOKENS)
            seed = int(sampling.get("seed") or zlib.crc32(prompt.encode()))
        except (ValueError, TypeError, AttributeError):
            # Without a cause: the message would quote the call, and errors end up in logs.
            raise ValueError("sampling_parameters must be a JSON object of numbers") from None
        limit = int(value(request, "max_tokens", limit))
        if limit < 1:
            raise ValueError("max_tokens must be at least 1")
        return cls(
            prompt=prompt,
            stream=bool(value(request, "stream", False)),
            max_tokens=min(limit, MAX_TOKENS),
            seed=seed,
            repeat_prompt=not value(request, "exclude_input_in_output", True),
            wanted=frozenset(
                name
                for name in ("finish_reason", "num_input_tokens", "num_output_tokens")
                if value(request, f"return_{name}", False)
            ),
        )


def value(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().ravel()[0]


def text(request, name, default):
    raw = value(request, name, default)
    try:
        return raw.decode("utf-8") if isinstance(raw, bytes) else raw
    except UnicodeDecodeError:
        raise ValueError(f"{name} must be UTF-8") from None


class TritonPythonModel:
    def initialize(self, args):
        self._runtime = Runtime(Path(__file__).parent)
        parameters = json.loads(args["model_config"])["parameters"]
        self._interval_s = float(parameters["token_interval_ms"]["string_value"]) / 1e3
        self._writers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scribe")

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                call = Call.read(request)  # now: its memory is Triton's again after this method
            except ValueError as error:
                failed = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
                sender.send(failed, flags=FINAL)
            else:
                self._writers.submit(self._answer, call, sender)

    def finalize(self):
        self._writers.shutdown(cancel_futures=True)

    def _answer(self, call, sender):
        try:
            self._write(call, sender)
        finally:
            sender.send(flags=FINAL)

    def _write(self, call, sender):
        pieces, count = [call.prompt] if call.repeat_prompt else [], 0
        for piece in self._runtime.generate(call.prompt, call.max_tokens, call.seed):
            if count:
                time.sleep(self._interval_s)
            if sender.is_cancelled():
                return
            count += 1
            pieces.append(piece)
            if call.stream:
                sender.send(response(call, "".join(pieces), 1, ""))
                pieces = []
        reason = "length" if count == call.max_tokens else "stop"
        if not call.stream:
            sender.send(response(call, "".join(pieces), count, reason))
        elif "finish_reason" in call.wanted:
            sender.send(response(call, "", 0, reason))


def response(call, output, count, reason):
    extra = {
        "finish_reason": np.array([reason.encode()], dtype=object),
        "num_input_tokens": np.array([count_tokens(call.prompt)], dtype=np.uint32),
        "num_output_tokens": np.array([count], dtype=np.uint32),
    }
    tensors = [pb_utils.Tensor("text_output", np.array([output.encode()], dtype=object))]
    tensors += [pb_utils.Tensor(name, extra[name]) for name in extra if name in call.wanted]
    return pb_utils.InferenceResponse(tensors)
