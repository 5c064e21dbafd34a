"""The operator's recognizers, from the YAML files that Presidio documents.

`classify.registry` is a recognizer registry as `RecognizerRegistryProvider` takes it, and stands in
for Presidio's default one; `classify.recognizers` has pattern recognizers that come on top, as
`RecognizerRegistry.add_recognizers_from_yaml` takes them. What Presidio would log, print or raise
as an exception of its own is a ConfigError here, with the line.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from presidio_analyzer import RecognizerRegistry
from presidio_analyzer.recognizer_registry.recognizers_loader_utils import RecognizerListLoader

from gateway.core.yaml_document import ConfigError, ConfigFile

if TYPE_CHECKING:
    from gateway.classify.scan_workers.frames import ScanSettings
    from gateway.config import ClassifySettings

_DEFAULT_FLAGS = 26  # DOTALL, MULTILINE and IGNORECASE, as in Presidio's own file
_REFUSED = (ValueError, TypeError, KeyError, AttributeError, ImportError)
"""What Presidio raises for a recognizer that it cannot make."""


def load(settings: ClassifySettings | ScanSettings) -> RecognizerRegistry:
    """Raises ConfigError, each line `file:line: key: what is wrong`."""
    languages = list(settings.languages)
    if settings.registry is None:
        registry = _presidios_own(languages)
    else:
        registry = _whole_registry(_read(settings.registry), languages)
    if settings.recognizers is not None:
        _add(registry, _read(settings.recognizers), languages)
    return registry


def _presidios_own(languages: list[str]) -> RecognizerRegistry:
    """What its provider makes where it is given nothing. Its own file needs no validation, which
    takes as long as all else, and is read here by a reader that takes a tenth as long."""
    file = resources.files("presidio_analyzer") / "conf" / "default_recognizers.yaml"
    document: dict[str, Any] = yaml.load(
        file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    flags = document["global_regex_flags"]
    recognizers = RecognizerListLoader.get(document["recognizers"], languages, flags)
    return RecognizerRegistry([*recognizers], flags, languages)


def _whole_registry(file: ConfigFile, languages: list[str]) -> RecognizerRegistry:
    named = file.document.setdefault("supported_languages", languages)
    file.document.setdefault("global_regex_flags", _DEFAULT_FLAGS)
    if not isinstance(named, list) or (missing := sorted(set(languages) - set(named))):
        wanted = ", ".join(languages if not isinstance(named, list) else missing)
        raise ConfigError(
            file.at(("supported_languages",), f"lacks {wanted} of classify.languages")
        )
    file.document["supported_languages"] = languages
    try:
        return _provided(file.document)
    except _REFUSED as exc:
        whole = _message(exc)
    for at, one in enumerate(file.document["recognizers"]):
        try:
            _provided(file.document | {"recognizers": [one]})
        except _REFUSED as exc:
            raise ConfigError(file.at(("recognizers", at), _message(exc))) from None
    raise ConfigError(file.at((), whole))


def _provided(configuration: dict[str, Any]) -> RecognizerRegistry:
    from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider  # with Pydantic

    provider = RecognizerRegistryProvider(registry_configuration=configuration)
    return provider.create_recognizer_registry()


def _add(registry: RecognizerRegistry, file: ConfigFile, languages: list[str]) -> None:
    for at, one in enumerate(file.document["recognizers"]):
        where = ("recognizers", at)
        if not isinstance(one, dict):
            raise ConfigError(file.at(where, "must be a mapping"))
        language = one.get("supported_language", "en")
        if language not in languages:
            problem = f"is for {language!r}, which is not in classify.languages"
            raise ConfigError(file.at(where, problem))
        try:
            registry.add_pattern_recognizer_from_dict(one)
        except _REFUSED as exc:
            raise ConfigError(file.at(where, _message(exc))) from None


def _read(path: Path) -> ConfigFile:
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {exc.start})") from None
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {exc.problem}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}:1: not valid YAML") from None
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:1: must be a mapping with a list of recognizers")
    file = ConfigFile(str(path), root, document)
    if not isinstance(document.get("recognizers"), list):
        raise ConfigError(file.at(("recognizers",), "must be a list, as Presidio has it"))
    return file


def _message(exc: BaseException) -> str:
    """Presidio says the reason in what its exception was raised from."""
    while exc.__cause__ is not None:
        exc = exc.__cause__
    from pydantic import ValidationError  # by now it is there, or nothing was validated

    if isinstance(exc, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
    return " ".join(str(exc).split()) or type(exc).__name__
