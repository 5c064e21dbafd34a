"""Card payments to the probability of fraud: a small network on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

FEATURES = (
    "amount_usd",
    "amount_to_usual_ratio",
    "hour_of_day",
    "minutes_since_last_payment",
    "payments_last_day",
    "distance_from_home_km",
    "distance_from_last_payment_km",
    "account_age_days",
    "merchant_risk",
    "card_present",
    "new_device",
    "foreign_country",
)

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def execute(self, inputs: Tensors) -> Tensors:
        """`features` [batch, 12] -> `score` [batch, 1], each from 0 to 1."""
        features = np.asarray(inputs["features"], dtype=np.float32)
        if not np.isfinite(features).all():
            raise ValueError("features must be finite numbers")
        (score,) = self._session.run(["score"], {"features": features})
        return {"score": score}
