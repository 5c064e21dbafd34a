"""Serves `runtime.Runtime` from Triton as a decoupled model, with the tensors of its vLLM backend.

With `stream` each piece is a response of its own; without it the whole text is one. In both cases
an empty response with the final flag comes last. Unlike vLLM's backend it does not repeat the
prompt unless `exclude_input_in_output` is false.

Batches are continuous, as in servers of large models: one loop writes the next word of every answer
that is being written, a step, and calls join and leave between two steps. Triton's own count of
executions says nothing of it, so steps and words are metrics of their own.
"""

import json
import queue
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from runtime import MAX_TOKENS, Runtime, count_tokens

AT_ONCE = 64  # answers of one step; who comes then joins when one has ended
TOLD_EVERY = 64  # steps; telling Triton takes as long as a word
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


class Answer:
    """What is being written for one call."""

    def __init__(self, runtime, call, sender):
        self._call = call
        self._sender = sender
        self._words = runtime.generate(call.prompt, call.max_tokens, call.seed)
        self._pieces = [call.prompt] if call.repeat_prompt else []
        self._count = 0

    def step(self):
        """One word more; false once it has ended, whatever ended it."""
        goes_on = False
        try:
            goes_on = not self._sender.is_cancelled() and self._write()
        finally:
            if not goes_on:
                self._sender.send(flags=FINAL)
        return goes_on

    def _write(self):
        piece = next(self._words, None)
        if piece is None:
            self._close()
            return False
        self._count += 1
        self._pieces.append(piece)
        if self._call.stream:
            self._sender.send(response(self._call, "".join(self._pieces), 1, ""))
            self._pieces = []
        if self._count == self._call.max_tokens:
            self._close()
            return False
        return True

    def _close(self):
        reason = "length" if self._count == self._call.max_tokens else "stop"
        if not self._call.stream:
            text_output = "".join(self._pieces)
            self._sender.send(response(self._call, text_output, self._count, reason))
        elif "finish_reason" in self._call.wanted:
            self._sender.send(response(self._call, "", 0, reason))


class Steps:
    """Counts steps and words; their quotient is the mean batch."""

    def __init__(self, model):
        self._metrics = [
            (
                family := pb_utils.MetricFamily(
                    name=f"spillway_generator_{what}_total",
                    description=f"{what.capitalize()} that the generator has made.",
                    kind=pb_utils.MetricFamily.COUNTER,
                ),
                family.Metric(labels={"model": model}),
            )
            for what in ("steps", "words")
        ]
        self._since = [0, 0]

    def made(self, words):
        self._since[0] += 1
        self._since[1] += words
        if self._since[0] == TOLD_EVERY:
            self.tell()

    def tell(self):
        for (_, metric), count in zip(self._metrics, self._since, strict=True):
            if count:
                metric.increment(count)
        self._since = [0, 0]


class TritonPythonModel:
    def initialize(self, args):
        self._runtime = Runtime(Path(__file__).parent)
        parameters = json.loads(args["model_config"])["parameters"]
        self._interval_s = float(parameters["token_interval_ms"]["string_value"]) / 1e3
        self._steps = Steps(args["model_name"])
        self._joining = queue.SimpleQueue()
        self._loop = threading.Thread(target=self._run, name="scribe", daemon=True)
        self._loop.start()

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                call = Call.read(request)  # now: its memory is Triton's again after this method
            except ValueError as error:
                failed = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
                sender.send(failed, flags=FINAL)
            else:
                self._joining.put(Answer(self._runtime, call, sender))

    def finalize(self):
        self._joining.put(None)
        self._loop.join()

    def _run(self):
        writing, next_s = [], 0.0
        while self._joined(writing):
            next_s = max(time.monotonic(), next_s + self._interval_s)
            went_on = [answer for answer in writing if self._stepped(answer)]
            self._steps.made(len(writing))
            writing = went_on
            if not writing:
                self._steps.tell()
            # Also after the last word of all: the next call's words keep their distance from it.
            time.sleep(max(0.0, next_s + self._interval_s - time.monotonic()))

    def _joined(self, writing):
        """Takes in who waits, and waits for somebody when nobody is there; false at the end."""
        while len(writing) < AT_ONCE:
            try:
                answer = self._joining.get(block=not writing)
            except queue.Empty:
                return True
            if answer is None:
                return False
            writing.append(answer)
        return True

    @staticmethod
    def _stepped(answer):
        try:
            return answer.step()
        except Exception as error:  # noqa: BLE001 - one loop writes all answers
            # Its call is lost, the others are not. The type alone: messages could quote the call.
            pb_utils.Logger.log_error(f"an answer failed: {type(error).__name__}")
            return False


def response(call, output, count, reason):
    extra = {
        "finish_reason": np.array([reason.encode()], dtype=object),
        "num_input_tokens": np.array([count_tokens(call.prompt)], dtype=np.uint32),
        "num_output_tokens": np.array([count], dtype=np.uint32),
    }
    tensors = [pb_utils.Tensor("text_output", np.array([output.encode()], dtype=object))]
    tensors += [pb_utils.Tensor(name, extra[name]) for name in extra if name in call.wanted]
    return pb_utils.InferenceResponse(tensors)
