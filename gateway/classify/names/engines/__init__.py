"""Which place looks for names, as `classify.names` says: the registry of the family `Names`.

Each is imported by who asks for it: they bring numpy and weights, and many gateways have none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from gateway.classify.names import LOOKED_FOR, Names
from gateway.classify.names.model.card import card
from gateway.config import ClassifySettings, NamesSettings

if TYPE_CHECKING:
    from gateway.classify.names.engines.remote import Door


def build(settings: ClassifySettings, door: Door | None = None) -> Names | None:
    """None where names are looked for nowhere. `door`: the on-prem one of the endpoint that the
    settings name, which an endpoint of another zone does not have."""
    names = settings.names
    if names.engine == "off":
        return None
    if names.engine == "presidio":
        from gateway.classify.names.engines.presidio import PresidioNames  # each imports much

        return PresidioNames(settings)
    languages: tuple[str, ...] = tuple(card()["languages"])  # it reads all of them in any case
    scan = names.other_languages == "scan"
    if names.engine == "builtin":
        from gateway.classify.names.engines.local import LocalNames  # numpy

        return LocalNames(languages, other_languages=scan, max_waiting=settings.max_waiting)
    from gateway.classify.names.engines.triton import TritonNames  # numpy

    return TritonNames(
        door, names.model, languages, other_languages=scan, max_waiting=settings.max_waiting
    )


def for_reports(settings: ClassifySettings, types: Collection[str]) -> Names | None:
    """For texts without a call: all findings, and no endpoint to ask. Its model has the weights of
    the built-in one."""
    if LOOKED_FOR.isdisjoint(types):
        return None
    names = settings.names
    if names.engine == "presidio":
        from gateway.classify.names.engines.presidio import PresidioNames  # each imports much

        return PresidioNames(settings, everything=True)
    if names.engine == "triton":
        local = names.model_copy(update={"engine": "builtin", "endpoint": None})
        settings = settings.model_copy(update={"names": local})
    return build(settings)


def version(names: NamesSettings) -> str:
    """Names what looks for names: verdicts are comparable within one version. Where it is
    Presidio's, the files count, and not where they lie."""
    if names.engine == "off":
        return "none"
    if names.engine != "presidio":
        return f"names-{card()['version']}"
    digest = hashlib.sha256()
    for path in (names.nlp_configuration, names.recognizers):
        content = b"" if path is None else path.read_bytes()
        digest.update(len(content).to_bytes(8, "big") + content)
    return f"presidio-{digest.hexdigest()[:12]}"
