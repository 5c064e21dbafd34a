"""How soon a failing Triton is out, and how soon it is back after healing.

    python -m loadtests.failures.heal --rounds 3

For each fault, with 20 calls a second of which half are restricted: seconds from the fault to the
first clear call that the cloud answers, errors that callers saw before it, and seconds from the end
of the fault to the first restricted call that the premises answer. Medians, and the worst.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.live import LoopThread, simulated_cloud, wait_until
from tests.scenarios.faulty import Call, Patient, Pump, patient

_WARM_S = 2.0
_LASTS_S = 4.0
_PATIENCE_S = 40.0

Fault = Callable[[Patient], Callable[[], None]]
"""Makes it happen and returns what ends it."""


def _killed(patient: Patient) -> Callable[[], None]:
    patient.kill()
    return lambda: None


def _stub_killed(patient: Patient) -> Callable[[], None]:
    patient.kill_stub()
    return lambda: None


def _switched(**state: object) -> Fault:
    def fault(patient: Patient) -> Callable[[], None]:
        patient.switch(**state)
        return patient.switch

    return fault


FAULTS: dict[str, Fault] = {
    "killed": _killed,
    "stopped": lambda patient: patient.stop(),
    "stub killed": _stub_killed,
    "fails": _switched(fails=True),
    "slow": _switched(delay_s=1.5),
    "hangs": _switched(hangs=True),
}
ENDS_ITSELF = {"killed", "stub killed"}  # the gateway starts the server again


@dataclass
class Measured:
    out_s: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    restricted_in_cloud: int = 0


async def measure(patient: Patient, name: str, found: Measured) -> None:
    pump = Pump(patient.gateway.http_url)
    async with pump.running():
        await pump.until(_onprem, _PATIENCE_S)
        await asyncio.sleep(_WARM_S)
        fault_s = time.monotonic()
        end = FAULTS[name](patient)
        healed_s = fault_s
        out = await pump.until(lambda c: c.sent_s > fault_s and c.zone == "cloud", _PATIENCE_S)
        found.out_s.append(out.done_s - fault_s)
        if name not in ENDS_ITSELF:
            await asyncio.sleep(max(0.0, fault_s + _LASTS_S - time.monotonic()))
            healed_s = time.monotonic()
            end()
        since_s = healed_s if name not in ENDS_ITSELF else out.done_s
        back = await pump.until(lambda c: c.sent_s > since_s and _onprem(c), _PATIENCE_S)
        found.back_s.append(back.done_s - healed_s)
        await pump.until(lambda c: _onprem(c) and not c.restricted, _PATIENCE_S)
    during = [c for c in pump.calls if fault_s < c.sent_s < back.done_s]
    found.errors.append(sum(1 for c in during if not c.restricted and c.status != 200))
    found.refused.append(sum(1 for c in during if c.restricted and c.status != 200))
    found.restricted_in_cloud += sum(1 for c in pump.calls if c.restricted and c.zone == "cloud")


def _onprem(call: Call) -> bool:
    return call.status == 200 and call.zone == "onprem"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fault", choices=FAULTS, action="append")
    args = parser.parse_args()
    loop = LoopThread()
    with simulated_cloud(loop) as cloud:
        for name in args.fault or FAULTS:
            found = Measured()
            for _ in range(args.rounds):  # anew: what fails again and again stays out for longer
                with tempfile.TemporaryDirectory() as scratch, patient(cloud, Path(scratch)) as one:
                    wait_until(one.proven, 30)
                    asyncio.run(measure(one, name, found))
            _show(name, found)
    loop.close()


def _show(name: str, found: Measured) -> None:
    def figures(seconds: list[float]) -> str:
        return f"{statistics.median(seconds):5.2f} s (worst {max(seconds):5.2f})"

    print(
        f"{name:12} out {figures(found.out_s)}  back {figures(found.back_s)}  "
        f"clear errors {found.errors}  restricted refused {found.refused}  "
        f"restricted in the cloud {found.restricted_in_cloud}",
        flush=True,
    )


if __name__ == "__main__":
    main()
