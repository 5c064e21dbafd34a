"""A classifier whose verdicts the operator's hooks tighten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.classify.classifier import Classifier
from gateway.classify.text.extract import Unscannable, extract_texts
from gateway.classify.verdicts.hooks import PREFIX, HookAnswer, NoAnswer
from gateway.classify.verdicts.hooks.client import Hook
from gateway.config.model_catalog import Catalog
from gateway.config.sections.classify import HookSettings
from gateway.core.errors import Forbidden, HookFailed, UnknownModel
from gateway.core.tasks import close_all
from gateway.core.types import Classification, InferenceRequest, Sensitivity, TensorCall

Report = Callable[[str, str], None]
"""Told the hook, and its answer or `failed`."""


class HookedClassifier:
    """As a `Classifier`, but that a hook may refuse a call: GatewayError."""

    def __init__(
        self,
        inner: Classifier,
        hooks: Mapping[str, HookSettings],
        catalog: Catalog,
        most_bytes: int,
        report: Report,
    ) -> None:
        """`most_bytes`: of texts that hooks are sent of a call of tensors. Raises ConfigError."""
        self._inner, self._catalog, self._most_bytes = inner, catalog, most_bytes
        self._report = report
        self._hooks = {name: Hook(settings) for name, settings in hooks.items()}

    def classify_now(self, request: InferenceRequest) -> Classification | None:
        return None

    async def classify(self, request: InferenceRequest) -> Classification:
        """Raises Forbidden for a call that a hook refuses, HookFailed for one about which it does
        not answer."""
        classification = await self._inner.classify(request)
        texts: list[str] = []
        if isinstance(request.payload, TensorCall):
            texts = self._texts(request)
        for name, hook in self._hooks.items():
            if hook.asks_about(request.model):
                answer = await self._answer(name, hook, request, classification, texts)
                if answer is HookAnswer.REFUSE:  # guard: K5.hook-refuses
                    raise Forbidden(f"refused by the hook {name}", reason="hook_refused")
                if answer is HookAnswer.RESTRICT:  # guard: K5.hook-restricts
                    reason = f"{PREFIX}{name}"  # over any other: no surrogates make up for it
                    self._inner.mark_restricted(request, reason)
                    # guard: M7.hooked-class without data_class=''
                    classification = replace(
                        classification,
                        sensitivity=Sensitivity.RESTRICTED,
                        reason=reason,
                        complete=False,
                        data_class="",
                    )
        return classification

    def _texts(self, request: InferenceRequest) -> list[str]:
        """As far as the call can be read; one that cannot is restricted."""
        try:
            model = self._catalog.find(request.model)
            return extract_texts(request.payload, model, self._most_bytes)
        except (Unscannable, UnknownModel):
            return []

    async def _answer(
        self,
        name: str,
        hook: Hook,
        request: InferenceRequest,
        classification: Classification,
        texts: list[str],
    ) -> HookAnswer:
        try:
            answer = await hook.answer(request, classification, texts)
        except NoAnswer:
            self._report(name, "failed")
            otherwise = HookAnswer(hook.settings.on_failure)
            # guard: K5.hook-failure otherwise is HookAnswer.REFUSE -> False
            if otherwise is HookAnswer.REFUSE:
                raise HookFailed(
                    f"the hook {name} does not answer; call again", retry_after_s=1.0
                ) from None
            return otherwise
        self._report(name, answer.value)
        return answer

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return await self._inner.complete(request, classification)

    async def aclose(self) -> None:
        await close_all(*(hook.aclose for hook in self._hooks.values()))
