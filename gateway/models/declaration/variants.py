"""How variants in lower precision are made, and what they must be good at."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field

from gateway.config.section import NotNegative, Positive, Section
from gateway.models.declaration.tensors import Inside, Precision, TensorName


class Metric(StrEnum):
    """How good a variant is on the named data set; 1 is the best of each."""

    SPEARMAN = "pairwise_spearman"  # of similarities between all pairs, against the reference
    AGREEMENT = "agreement"  # share of rows with the reference's largest score
    AUC = "auc"  # area under the ROC curve, against labels
    ACCURACY = "accuracy"  # share of rows whose largest score is their label's


class AccuracyDeclaration(Section):
    """What a variant in lower precision must still be good at."""

    metric: Metric
    data: Inside = Field(description="lines of text, or an .npz of inputs (and `label`)")
    output: TensorName | None = Field(
        None, description="the output that is judged; the first one if not"
    )
    largest_loss: NotNegative = Field(description="how far the metric may fall below fp32's")


class QuantizationDeclaration(Section):
    """How the int8 variant is made."""

    method: Literal["dynamic", "static"] = "dynamic"
    per_channel: bool = True
    reduce_range: bool = Field(False, description="7 bits, for processors without VNNI")
    symmetric: bool = Field(False, description="static: activations as an engine takes them")
    keep: tuple[str, ...] = Field((), description="weights, by name, that stay as they are")


class VerifyDeclaration(Section):
    """How far a variant's outputs may be from the fp32 reference, relative to the largest value
    of an output."""

    tolerance: Mapping[Precision, Positive] = Field(
        default_factory=lambda: {
            Precision.FP32: 1e-4,
            Precision.FP16: 1e-2,
            Precision.BF16: 1e-1,
        }
    )
    seed: int = 20261122
    golden: Inside = "expected.json"
