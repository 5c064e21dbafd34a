"""Trains the fraud score on payments that it makes up: `python models/fraud_score/train.py`.

With `--measure` it trains nothing and prints the area under the ROC curve of the model that is
there, on payments from another seed, beside the best that any model could reach on such data.
With `--data FILE` it writes the data set of the accuracy gate, from a third seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
SEED_TRAIN, SEED_TEST, SEED_GATE = 20261101, 20261102, 20261105
PAYMENTS, JUDGED = 60_000, 4_000
HIDDEN = (32, 16)
EPOCHS, BATCH, RATE = 12, 256, 2e-3

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Payments:
    features: Array  # [n, 12], in the order of runtime.FEATURES
    fraud: npt.NDArray[np.bool_]
    probability: npt.NDArray[np.float64]  # what the labels were drawn from: the best possible score


def payments(count: int, seed: int) -> Payments:
    """Plausible card payments. Fraud is drawn from a rule with interactions, about 3 % of them."""
    rng = np.random.default_rng(seed)
    usual = rng.lognormal(3.6, 0.7, count)
    ratio = rng.lognormal(0.0, 0.8, count)
    hour = (rng.normal(14, 4.5, count)) % 24
    since = rng.exponential(600, count)
    today = rng.poisson(2.5, count)
    home = rng.lognormal(1.8, 1.5, count)
    last = home * rng.uniform(0, 1.5, count)
    age = rng.gamma(2.0, 600, count)
    merchant = rng.beta(1.5, 8, count)
    present = rng.random(count) < 0.65
    device = ~present & (rng.random(count) < 0.15)
    foreign = rng.random(count) < 0.06
    speed = last / np.maximum(since, 1) * 60  # km/h since the last payment
    night = (hour < 5) | (hour > 23)
    logit = (
        -8.2
        + 1.8 * np.log(ratio).clip(0)
        + 8.0 * merchant
        + 2.0 * device
        + 2.4 * (device & (ratio > 2))
        + 1.8 * foreign
        + 1.2 * (foreign & night)
        + 1.0 * night
        + 1.4 * (speed > 300)
        + 0.4 * (today - 4).clip(0)
        + 1.8 * (age < 90)
        + 1.3 * ~present * np.log1p(ratio)
    )
    probability = 1 / (1 + np.exp(-logit))
    columns = (
        *(usual * ratio, ratio, hour, since, today, home, last, age, merchant),
        *(present, device, foreign),
    )
    features = np.stack([np.asarray(c, dtype=np.float32) for c in columns], axis=1)
    return Payments(features, rng.random(count) < probability, probability)


def auc(scores: npt.NDArray[np.floating], fraud: npt.NDArray[np.bool_]) -> float:
    """The chance that a fraud scores above a payment that is none (ties are halves)."""
    order = np.argsort(scores, kind="stable")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(fraud.sum())
    won = ranks[fraud].sum() - positives * (positives + 1) / 2
    return float(won / (positives * (len(fraud) - positives)))


def compressed(features: Array) -> Array:
    """Amounts, times and distances span orders of magnitude, so the network reads logarithms."""
    return np.log1p(np.abs(features))


def train(output: Path, tell: Callable[[str], None] = lambda _: None) -> None:
    data = payments(PAYMENTS, SEED_TRAIN)
    inputs = compressed(data.features)
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
    inputs = (inputs - mean) / spread
    labels = data.fraud.astype(np.float32)[:, None]
    rng = np.random.default_rng(SEED_TRAIN + 1)
    sizes = (inputs.shape[1], *HIDDEN, 1)
    parameters: list[Array] = []
    for fan_in, fan_out in pairwise(sizes):
        scale = np.sqrt(2 / fan_in)
        parameters.append((rng.normal(0, scale, (fan_in, fan_out))).astype(np.float32))
        parameters.append(np.zeros(fan_out, dtype=np.float32))
    adam = Adam(parameters)
    steps = EPOCHS * (len(inputs) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        tell(f"training, epoch {epoch + 1} of {EPOCHS}")
        order = rng.permutation(len(inputs))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            gradients = backward(parameters, inputs[chosen], labels[chosen])
            step += 1
            adam.step(gradients, RATE * (1 - step / (steps + 1)))
    onnx.save(graph(parameters, mean, spread), output)


def forward(parameters: list[Array], inputs: Array) -> list[Array]:
    """Each layer's output; the last one is the score."""
    outputs = [inputs]
    for at in range(0, len(parameters), 2):
        before = outputs[-1] @ parameters[at] + parameters[at + 1]
        last = at == len(parameters) - 2
        outputs.append(1 / (1 + np.exp(-before)) if last else np.maximum(before, 0))
    return outputs


def backward(parameters: list[Array], inputs: Array, labels: Array) -> list[Array]:
    """Gradients of the mean cross entropy."""
    outputs = forward(parameters, inputs)
    gradients: list[Array] = []
    delta = (outputs[-1] - labels) / len(inputs)
    for at in range(len(parameters) - 2, -1, -2):
        before = outputs[at // 2]
        gradients[:0] = [before.T @ delta, delta.sum(axis=0)]
        delta = (delta @ parameters[at].T) * (before > 0)
    return gradients


class Adam:
    def __init__(self, parameters: list[Array]) -> None:
        self._parameters = parameters
        self._first = [np.zeros_like(p) for p in parameters]
        self._second = [np.zeros_like(p) for p in parameters]
        self._steps = 0

    def step(self, gradients: list[Array], rate: float) -> None:
        self._steps += 1
        correct = np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for at, gradient in enumerate(gradients):
            self._first[at] += 0.1 * (gradient - self._first[at])
            self._second[at] += 0.001 * (gradient**2 - self._second[at])
            change = rate * correct * self._first[at] / (np.sqrt(self._second[at]) + 1e-8)
            self._parameters[at] -= change.astype(np.float32)


def graph(parameters: list[Array], mean: Array, spread: Array) -> onnx.ModelProto:
    constants = {"one": np.float32(1), "mean": mean, "spread": spread}
    nodes = [
        helper.make_node("Abs", ["features"], ["size"]),
        helper.make_node("Add", ["size", "one"], ["more"]),
        helper.make_node("Log", ["more"], ["log"]),
        helper.make_node("Sub", ["log", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "spread"], ["layer_0"]),
    ]
    layers = len(parameters) // 2
    for layer in range(layers):
        names = f"kernel_{layer}", f"bias_{layer}"
        constants |= dict(zip(names, parameters[2 * layer : 2 * layer + 2], strict=True))
        nodes.append(helper.make_node("Gemm", [f"layer_{layer}", *names], [f"sum_{layer}"]))
        last = layer == layers - 1
        nodes.append(
            helper.make_node(
                "Sigmoid" if last else "Relu",
                [f"sum_{layer}"],
                ["score" if last else f"layer_{layer + 1}"],
            )
        )
    count = len(mean)
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "fraud_score",
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", count])],
            [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1])],
            [numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="spillway",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def measure(model: Path) -> str:
    sys.path.insert(0, str(model))
    from runtime import Runtime  # only here: training needs no ONNX Runtime

    data = payments(50_000, SEED_TEST)
    scores = Runtime(model).execute({"features": data.features})["score"][:, 0]
    reached, best = auc(scores, data.fraud), auc(data.probability, data.fraud)
    return f"AUC {reached:.3f}, best possible {best:.3f}, {data.fraud.mean():.1%} fraud"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--data", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.data:
        judged = payments(JUDGED, SEED_GATE)
        np.savez_compressed(given.data, features=judged.features, label=judged.fraud)
        sys.exit(0)
    if not given.measure:
        train(HERE / "1/model.onnx", print)
    print(measure(HERE / "1"))
