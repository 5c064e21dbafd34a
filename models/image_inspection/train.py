"""Trains the inspection model on images that it draws: `python models/image_inspection/train.py`.

With `--measure` it trains nothing and prints the accuracy of the model that is there, on images
from another seed. `--show DIRECTORY` writes some of them as PGM files, to look at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
SEED_TRAIN, SEED_TEST = 20261103, 20261104
SIDE, CLASSES = 64, 3
IMAGES, EPOCHS, BATCH, RATE = 4800, 8, 48, 3e-3
# Kernel side and channels of each layer; every one halves the image.
LAYERS = ((5, 8), (3, 16), (3, 24))

Array = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Field = npt.NDArray[np.float64]


# --- the images ---------------------------------------------------------------------------------


def images(count: int, seed: int) -> tuple[Images, Labels]:
    """Brushed metal under uneven light: a third is fine, a third scratched, a third stained."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    drawn = np.stack([_image(int(label), rng) for label in labels])
    return drawn[..., None], labels


def _image(label: int, rng: np.random.Generator) -> Images:
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    brushed = np.repeat(rng.normal(0, 4, (SIDE, 1)), SIDE, axis=1) + rng.normal(0, 6, (SIDE, SIDE))
    light = rng.uniform(-30, 30) * x + rng.uniform(-30, 30) * y
    surface = rng.uniform(110, 170) + light + brushed
    if label == 1:
        surface += _scratch(x, y, rng)
    elif label == 2:
        surface += _stain(x, y, rng)
    return surface.clip(0, 255).astype(np.uint8)


def _scratch(x: Field, y: Field, rng: np.random.Generator) -> Field:
    """A thin line with a slight bend, never along the brushing, brighter or darker."""
    angle = rng.uniform(0.25, np.pi - 0.25)
    dx, dy = x - rng.uniform(0.3, 0.7), y - rng.uniform(0.3, 0.7)
    along = dx * np.cos(angle) + dy * np.sin(angle)
    across = dy * np.cos(angle) - dx * np.sin(angle) + rng.uniform(-0.4, 0.4) * along**2
    line = np.exp(-((across * SIDE / rng.uniform(0.7, 1.3)) ** 2))
    ends = np.abs(along) < rng.uniform(0.15, 0.4)
    return rng.choice([-1, 1]) * rng.uniform(25, 60) * line * ends


def _stain(x: Field, y: Field, rng: np.random.Generator) -> Field:
    """A soft blot with an uneven rim, darker."""
    dx, dy = x - rng.uniform(0.2, 0.8), y - rng.uniform(0.2, 0.8)
    turn = np.arctan2(dy, dx)
    rim = 1 + 0.25 * np.sin(rng.integers(2, 5) * turn + rng.uniform(0, 6))
    distance = np.hypot(dx, dy * rng.uniform(0.7, 1.4)) / (rng.uniform(0.08, 0.2) * rim)
    return -rng.uniform(15, 45) / (1 + np.exp((distance - 1) * 8))


# --- the network --------------------------------------------------------------------------------


def start(rng: np.random.Generator) -> list[Array]:
    """Kernel [side * side * channels in, channels out] and bias of each layer, dense one last."""
    parameters: list[Array] = []
    channels = 1
    for side, out in LAYERS:
        fan_in = side * side * channels
        parameters.append(rng.normal(0, np.sqrt(2 / fan_in), (fan_in, out)).astype(np.float32))
        parameters.append(np.zeros(out, np.float32))
        channels = out
    parameters.append(rng.normal(0, 0.1, (2 * channels, CLASSES)).astype(np.float32))
    parameters.append(np.zeros(CLASSES, np.float32))
    return parameters


def scaled(batch: Images) -> Array:
    """Less its mean and over a fixed range, so that the light's level does not count."""
    values = batch.astype(np.float32) / 32
    return values - values.mean(axis=(1, 2, 3), keepdims=True)


def windows(values: Array, side: int) -> Array:
    """The surroundings of every second pixel as rows: a convolution becomes one product."""
    pad = side // 2
    padded = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
    taken = views[:, ::2, ::2].transpose(0, 1, 2, 4, 5, 3)
    count, height, width = taken.shape[:3]
    return np.ascontiguousarray(taken).reshape(count, height, width, -1)


def unwindowed(gradient: Array, shape: tuple[int, ...], side: int) -> Array:
    """The transpose of `windows`: every row's part goes back to the pixel that it came from."""
    pad = side // 2
    count, height, width, channels = shape
    result = np.zeros((count, height + 2 * pad, width + 2 * pad, channels), np.float32)
    parts = gradient.reshape(*gradient.shape[:3], side, side, channels)
    for dy in range(side):
        for dx in range(side):
            result[:, dy : dy + height : 2, dx : dx + width : 2] += parts[:, :, :, dy, dx]
    return result[:, pad : pad + height, pad : pad + width]


def gradients(parameters: list[Array], batch: Images, labels: Labels) -> list[Array]:
    """Of the mean cross entropy. Pooling takes the mean and the maximum of each channel."""
    values, rows, shapes = scaled(batch), [], []
    for layer, (side, _) in enumerate(LAYERS):
        shapes.append(values.shape)
        rows.append(windows(values, side))
        values = np.maximum(rows[-1] @ parameters[2 * layer] + parameters[2 * layer + 1], 0)
    count, height, width, channels = values.shape
    flat = values.reshape(count, -1, channels)
    peaks = flat.argmax(axis=1)
    pooled = np.concatenate([flat.mean(axis=1), flat.max(axis=1)], axis=1)
    logits = pooled @ parameters[-2] + parameters[-1]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(count), labels] -= 1
    delta = shares / count
    found = [pooled.T @ delta, delta.sum(axis=0)]
    spread = delta @ parameters[-2].T
    back = np.repeat(spread[:, None, :channels] / (height * width), height * width, axis=1)
    np.put_along_axis(
        back,
        peaks[:, None],
        np.take_along_axis(back, peaks[:, None], 1) + spread[:, None, channels:],
        1,
    )
    delta = back.reshape(values.shape)
    for layer in range(len(LAYERS) - 1, -1, -1):
        delta = delta * (values > 0)
        size = rows[layer].shape[-1]
        kernel = rows[layer].reshape(-1, size).T @ delta.reshape(-1, delta.shape[-1])
        found[:0] = [kernel, delta.sum(axis=(0, 1, 2))]
        if layer:
            side = LAYERS[layer][0]
            delta = unwindowed(delta @ parameters[2 * layer].T, shapes[layer], side)
            below = rows[layer - 1] @ parameters[2 * layer - 2] + parameters[2 * layer - 1]
            values = np.maximum(below, 0)
    return found


def train(output: Path, tell: Callable[[str], None] = lambda _: None) -> None:
    tell("drawing images")
    batch, labels = images(IMAGES, SEED_TRAIN)
    rng = np.random.default_rng(SEED_TRAIN + 1)
    parameters = start(rng)
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    steps, step = EPOCHS * (IMAGES // BATCH), 0
    for epoch in range(EPOCHS):
        tell(f"training, epoch {epoch + 1} of {EPOCHS}")
        order = rng.permutation(IMAGES)
        for at in range(0, IMAGES - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            rate *= np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            found = gradients(parameters, _flipped(batch[chosen], rng), labels[chosen])
            for index, gradient in enumerate(found):  # Adam
                first[index] += 0.1 * (gradient - first[index])
                second[index] += 0.001 * (gradient**2 - second[index])
                change = rate * first[index] / (np.sqrt(second[index]) + 1e-8)
                parameters[index] -= change.astype(np.float32)
    onnx.save(graph(parameters), output)


def _flipped(batch: Images, rng: np.random.Generator) -> Images:
    """Twice the data: a surface is as good seen in a mirror."""
    batch = batch[:, ::-1] if rng.random() < 0.5 else batch
    return batch[:, :, ::-1] if rng.random() < 0.5 else batch


def graph(parameters: list[Array]) -> onnx.ModelProto:
    constants: dict[str, npt.NDArray[np.generic]] = {
        "range": np.array(32, np.float32),
        "first_class": np.array([0], np.int64),
        "second_class": np.array([1], np.int64),
        "class_axis": np.array([1], np.int64),
        "one": np.array(1, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Cast", ["image"], ["values"], to=TensorProto.FLOAT),
        node("Div", ["values", "range"], ["ranged"]),
        node("ReduceMean", ["ranged"], ["level"], axes=[1, 2, 3], keepdims=1),
        node("Sub", ["ranged", "level"], ["levelled"]),
        node("Transpose", ["levelled"], ["layer_0"], perm=[0, 3, 1, 2]),
    ]
    channels = 1
    for layer, (side, out) in enumerate(LAYERS):
        kernel = parameters[2 * layer].reshape(side, side, channels, out).transpose(3, 2, 0, 1)
        constants |= {f"kernel_{layer}": kernel, f"bias_{layer}": parameters[2 * layer + 1]}
        inputs = [f"layer_{layer}", f"kernel_{layer}", f"bias_{layer}"]
        pads = [side // 2] * 4
        nodes.append(node("Conv", inputs, [f"sum_{layer}"], strides=[2, 2], pads=pads))
        nodes.append(node("Relu", [f"sum_{layer}"], [f"layer_{layer + 1}"]))
        channels = out
    top = f"layer_{len(LAYERS)}"
    constants |= {"kernel": parameters[-2], "bias": parameters[-1]}
    nodes += [
        node("ReduceMean", [top], ["mean"], axes=[2, 3], keepdims=0),
        node("ReduceMax", [top], ["peak"], axes=[2, 3], keepdims=0),
        node("Concat", ["mean", "peak"], ["pooled"], axis=1),
        node("Gemm", ["pooled", "kernel", "bias"], ["logits"]),
        node("Softmax", ["logits"], ["class_scores"], axis=1),
        node("Slice", ["class_scores", "first_class", "second_class", "class_axis"], ["fine"]),
        node("Sub", ["one", "fine"], ["defect_probability"]),
    ]
    floats = TensorProto.FLOAT
    shape = ["batch", SIDE, SIDE, 1]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "image_inspection",
            [helper.make_tensor_value_info("image", TensorProto.UINT8, shape)],
            [
                helper.make_tensor_value_info("defect_probability", floats, ["batch", 1]),
                helper.make_tensor_value_info("class_scores", floats, ["batch", CLASSES]),
            ],
            [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="spillway",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def measure(model: Path) -> str:
    sys.path.insert(0, str(model))
    from runtime import CLASSES as NAMES  # only here: training needs no ONNX Runtime
    from runtime import Runtime

    batch, labels = images(3000, SEED_TEST)
    scores = Runtime(model).execute({"image": batch})["class_scores"]
    right = scores.argmax(axis=1) == labels
    per_class = (f"{name} {right[labels == i].mean():.1%}" for i, name in enumerate(NAMES))
    return f"accuracy {right.mean():.1%} ({', '.join(per_class)}) on {len(labels)} images"


def show(directory: Path) -> None:
    batch, labels = images(24, SEED_TEST)
    for index, (image, label) in enumerate(zip(batch, labels, strict=True)):
        header = f"P5 {SIDE} {SIDE} 255\n".encode()
        (directory / f"{index:02}-{label}.pgm").write_bytes(header + image.tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--show", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        sys.exit()
    if not options.measure:
        train(HERE / "1/model.onnx", print)
    print(measure(HERE / "1"))
