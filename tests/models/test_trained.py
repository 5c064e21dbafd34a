"""The two models that are trained here: good on data that they never saw, served as measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from .calls import infer
from .serving import MODELS


def script(model: str) -> ModuleType:
    """A model's train.py; models/ is a model repository and not a package."""
    name = f"train_{model}"
    spec = importlib.util.spec_from_file_location(name, MODELS / model / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_fraud_scores_nearly_as_well_as_any_model_could(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    train = script("fraud_score")
    data = train.payments(12_800, seed=7)
    batches = np.split(data.features, len(data.features) // 64)
    scores = np.concatenate(
        [infer(over_grpc, "fraud_score", {"features": b}, "score")[:, 0] for b in batches]
    )
    assert scores.min() >= 0
    assert scores.max() <= 1
    reached, best = train.auc(scores, data.fraud), train.auc(data.probability, data.fraud)
    assert reached > 0.9
    assert reached > best - 0.03


def test_fraud_training_gives_the_model_that_is_served(built: None, tmp_path: Path) -> None:
    train = script("fraud_score")
    train.train(tmp_path / "model.onnx")
    served = (MODELS / "fraud_score/1/model.onnx").stat().st_size
    assert (tmp_path / "model.onnx").stat().st_size == served


def test_a_feature_that_is_not_a_number_is_refused(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    features = np.full((1, 12), np.nan, dtype=np.float32)
    with pytest.raises(InferenceServerException, match="finite"):
        infer(over_grpc, "fraud_score", {"features": features}, "score")


def test_inspection_sees_scratches_and_stains(over_grpc: grpcclient.InferenceServerClient) -> None:
    images, labels = script("image_inspection").images(640, seed=7)
    right = 0
    for batch, truth in zip(np.split(images, 20), np.split(labels, 20), strict=True):
        scores = infer(over_grpc, "image_inspection", {"image": batch}, "class_scores")
        right += int((scores.astype(np.float32).argmax(axis=1) == truth).sum())
    assert right / len(labels) > 0.97


def test_the_probability_of_a_defect_is_what_ok_leaves(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    images, _ = script("image_inspection").images(8, seed=8)
    inputs = {"image": images}
    scores = infer(over_grpc, "image_inspection", inputs, "class_scores").astype(np.float32)
    defect = infer(over_grpc, "image_inspection", inputs, "defect_probability").astype(np.float32)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(defect[:, 0], 1 - scores[:, 0], atol=1e-6)
