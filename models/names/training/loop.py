"""What all three models are trained with: rounds of fresh examples, and steps that grow smaller."""

from __future__ import annotations

import random
from collections.abc import Iterator

from torch import Tensor, nn
from torch.optim import AdamW

from gateway.classify.names.model.features import Features
from training.corpus import Example, Sources, inflector, labelled
from training.generate import Generator
from training.pools import Pools

_LARGEST_NORM = 1.0
_DECAY = 0.01


class Steps:
    def __init__(self, model: nn.Module, rate: float, warm_up: int, least: float) -> None:
        """`warm_up`: steps until the full rate. `least`: the share of it that the end has."""
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._rate, self._warm_up, self._least = rate, warm_up, least
        self.done = 0
        self._optimiser = AdamW(
            [
                {"params": [p for p in self._parameters if p.ndim > 1], "weight_decay": _DECAY},
                {"params": [p for p in self._parameters if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=rate,
        )

    def take(self, loss: Tensor, share: float) -> float:
        """One step; `share` of the training is over."""
        rate = self._rate * min(1.0, self.done / self._warm_up) * max(self._least, 1 - share)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, _LARGEST_NORM)
        self._optimiser.step()
        self.done += 1
        return float(loss.item())


def examples(
    sources: Sources, pools: Pools, features: Features, rng: random.Random
) -> Iterator[Example]:
    """One round: slots filled anew, texts written anew."""
    for sample in sources.samples(Generator(pools, rng, inflector()), rng):
        if (example := labelled(sample, features)) is not None:
            yield example
