"""How the simulated cloud behaves: one frozen value, read from YAML, replaced whole."""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from pathlib import Path

import yaml

Setting = str | int | float | None


class SettingsError(ValueError):
    """A setting that does not exist, or a value that it cannot take."""


class OutageMode(enum.Enum):
    NONE = "none"
    REFUSE = "refuse"  # nothing listens; connections that are open are reset
    HANG = "hang"  # takes the call and never answers
    CUT = "cut"  # closes the connection after `cut_after_chunks` pieces of the answer
    RESET = "reset"  # sends half of the next piece after `cut_after_chunks`, then a TCP reset
    DRIP = "drip"  # sends the answer's body at `drip_bytes_per_s`
    MALFORMED = "malformed"  # answers 200 with something that does not parse
    ERROR_EVENT = "error_event"  # answers 200 and then says, inside the body, that it failed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    seed: int = 0
    api_key: str | None = None  # asked for as `authorization: Bearer ...` where set

    # The round trip is lognormal: the median and the sigma of its logarithm.
    round_trip_median_ms: float = 90.0
    round_trip_sigma: float = 0.35
    service_ms: float = 12.0  # per call, on top of what the model itself takes
    service_per_token_ms: float = 1.0  # per output token of an answer that is not streamed
    between_tokens_ms: float = 8.0  # between the pieces of a streamed answer

    price_per_1k_tokens_usd: float = 0.002
    price_per_call_usd: float = 0.0001

    error_rate: float = 0.0
    error_status: int = 500
    rate_limited_rate: float = 0.0
    concurrency_limit: int | None = None
    retry_after_s: float | None = None  # header `retry-after` of a 429, left out where unset
    retry_after_ms: float | None = None  # header `retry-after-ms` of a 429

    outage: OutageMode = OutageMode.NONE
    outage_rate: float = 1.0  # the share of calls that meet the outage; `refuse` is for all
    cut_after_chunks: int = 2
    drip_bytes_per_s: float = 64.0

    def __post_init__(self) -> None:
        for name in ("error_rate", "rate_limited_rate", "outage_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name}: must be between 0 and 1")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and value < 0:
                raise SettingsError(f"{field.name}: must not be negative")
        if not 500 <= self.error_status <= 599:
            raise SettingsError("error_status: must be between 500 and 599")
        if self.drip_bytes_per_s <= 0:
            raise SettingsError("drip_bytes_per_s: must be more than 0")

    def changed(self, changes: Mapping[str, object]) -> "CloudSettings":
        unknown = sorted(changes.keys() - _TYPES.keys())
        if unknown:
            raise SettingsError(f"unknown settings: {', '.join(unknown)}")
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values |= {name: _checked(name, value) for name, value in changes.items()}
        return CloudSettings(**values)

    def as_json(self) -> dict[str, Setting]:
        """What can be shown: the key itself is not."""
        shown = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shown["outage"] = self.outage.value
        shown["api_key"] = None if self.api_key is None else "set"
        return shown


def load(path: Path | None) -> CloudSettings:
    if path is None:
        return CloudSettings()
    raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise SettingsError(f"{path.name}: must be a mapping of settings")
    return CloudSettings().changed(raw)


_TYPES = typing.get_type_hints(CloudSettings)


def _checked(name: str, value: object) -> object:
    expected = _TYPES[name]
    accepted = typing.get_args(expected) or (expected,)
    if expected is OutageMode:
        try:
            return OutageMode(value)
        except ValueError:
            names = ", ".join(outage.value for outage in OutageMode)
            raise SettingsError(f"{name}: must be one of {names}") from None
    if float in accepted and type(value) is int:
        return float(value)
    if type(value) in accepted:
        return value
    wanted = " or ".join("null" if kind is types.NoneType else kind.__name__ for kind in accepted)
    raise SettingsError(f"{name}: must be {wanted}")
