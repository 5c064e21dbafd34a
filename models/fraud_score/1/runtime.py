"""Card payments to the probability of fraud: a small network on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from ort_session import OrtSession, SessionConfig

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

THREADS = 1  # a batch is done before a second one has woken

Tensors = dict[str, npt.NDArray[np.generic]]


class Runtime:
    def __init__(self, directory: Path, wanted: SessionConfig | None = None) -> None:
        self.session = OrtSession(directory, wanted, most_threads=THREADS)

    def execute(self, inputs: Tensors) -> Tensors:
        """`features` [batch, 12] -> `score` [batch, 1], each from 0 to 1."""
        features = np.asarray(inputs["features"], dtype=np.float32)
        if not np.isfinite(features).all():
            raise ValueError("features must be finite numbers")
        return self.session.run({"features": features})
