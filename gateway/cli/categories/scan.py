"""How near texts are to one category, as a gateway with these settings would see them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from gateway.classify.categories.matching import Category, Matcher
from gateway.config import ClassifySettings
from gateway.core import ambient

_VERDICTS = {"restrict": "restricted", "label": "labelled"}


@dataclass(frozen=True, slots=True)
class CategoryScan:
    action: str
    category: Category
    matcher: Matcher

    @classmethod
    async def start(cls, settings: ClassifySettings, name: str) -> CategoryScan:
        """Raises ScannerUnfit."""
        own = settings.categories[name]
        update: dict[str, Any] = {"categories": {name: own}}
        if own.examples is None:
            update["embeddings"] = None
        matcher = await asyncio.to_thread(Matcher.load, settings.model_copy(update=update))
        (category,) = matcher.categories
        return cls(own.action, category, matcher)

    def summary(self) -> str:
        """What the threshold does with the examples that it comes from, in JSON."""
        nearness = self.category.nearness
        counts = {} if nearness is None else {"examples": nearness.count, "near": nearness.caught}
        return json.dumps(
            {"category": self.category.name, "threshold": self.category.threshold, **counts}
        )

    async def line(self, id_: Any, text: str) -> dict[str, Any]:
        started_s = ambient.monotonic_s()
        score = await asyncio.to_thread(self._score, text)
        near = score >= self.category.threshold
        return {
            "id": id_,
            "category": self.category.name,
            "score": round(score, 4),
            "threshold": self.category.threshold,
            "verdict": _VERDICTS[self.action] if near else "clear",
            "ms": round((ambient.monotonic_s() - started_s) * 1e3, 3),
        }

    def _score(self, text: str) -> float:
        return max((match.score for match in self.matcher.matches(text)), default=0.0)

    async def aclose(self) -> None:
        """Nothing is open."""
