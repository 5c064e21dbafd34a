"""Whether restricted calls stayed home, from three witnesses that know nothing of each other.

They are the simulated cloud's log of every byte that reached it, the gateway's decision records,
and the x-spillway-* headers that callers got. Where two disagree nothing is proved. Clear calls
that the cloud served must be found in its log: that shows, on the same run, that the search finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.summary import CLOUD, Ended


@dataclass(frozen=True, slots=True)
class Proof:
    restricted_calls: int
    markers: int  # looked for, of restricted calls
    cloud_bytes: int  # searched
    leaked: tuple[str, ...]  # ids of restricted calls of which anything was found
    controls: int  # clear calls that the cloud answered
    controls_detected: int
    disagreements: tuple[str, ...]

    @property
    def holds(self) -> bool:
        searched = self.controls_detected == self.controls
        return searched and not self.leaked and not self.disagreements

    def as_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "markers_searched": self.markers,
            "cloud_bytes_searched": self.cloud_bytes,
            "leaked": list(self.leaked),
            "controls": self.controls,
            "controls_found": self.controls_detected,
            "disagreements": list(self.disagreements),
        }


async def prove(cloud: SimulatedCloud, ended: Sequence[Ended]) -> Proof:
    """Raises CloudFailed when something that reached the cloud cannot be searched."""
    hits = await cloud.search([needle for e in ended for needle in e.call.needles])
    return weigh(ended, {hit.needle for hit in hits}, (await cloud.traffic()).bytes)


def weigh(ended: Sequence[Ended], detected: Collection[str], cloud_bytes: int) -> Proof:
    """`detected` are the markers that occur in what reached the cloud."""
    restricted = [e for e in ended if e.call.restricted]
    controls = [e for e in ended if not e.call.restricted and e.zone == CLOUD]
    return Proof(
        restricted_calls=len(restricted),
        markers=sum(len(e.call.needles) for e in restricted),
        cloud_bytes=cloud_bytes,
        leaked=tuple(e.call.request_id for e in restricted if _reached_cloud(e, detected)),
        controls=len(controls),
        controls_detected=sum(_reached_cloud(e, detected) for e in controls),
        disagreements=tuple(
            f"call {e.call.request_id}: {contradiction}"
            for e in ended
            for contradiction in _contradictions(e, detected)
        ),
    )


def _reached_cloud(ended: Ended, detected: Collection[str]) -> bool:
    return any(needle in detected for needle in ended.call.needles)


def _contradictions(ended: Ended, detected: Collection[str]) -> Iterator[str]:
    call, decided = ended.call, ended.decided
    zone = ended.observed.headers.get("x-spillway-zone")
    if decided is None:
        if ended.observed.ok:
            yield "it was answered and there is no decision record of it"
        return
    if call.restricted:
        if not decided.restricted:
            yield "it carries restricted data and its record says clear"
        if CLOUD in decided.tried:
            yield "it is restricted and its record names the cloud"
        if zone == CLOUD:
            yield "it is restricted and its answer's headers name the cloud"
    elif CLOUD not in decided.tried and _reached_cloud(ended, detected):
        yield "it reached the cloud and its record does not say so"
    if ended.observed.ok and zone is not None and zone != decided.served_in:
        yield f"its answer's headers say {zone} and its record {decided.served_in}"
