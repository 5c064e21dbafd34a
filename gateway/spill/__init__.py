"""What holds back calls that could leave: money, a switch, and what the cloud can take.

None of this clears a call: it only takes the cloud away from calls that were cleared.
"""

from gateway.spill.budget import Reservation, SpillBudgets
from gateway.spill.concurrency import AdaptiveLimit
from gateway.spill.control import SpillControl
from gateway.spill.stop import SpillStop
from gateway.spill.waiting import CloudLine, CloudPace

__all__ = [
    "AdaptiveLimit",
    "CloudLine",
    "CloudPace",
    "Reservation",
    "SpillBudgets",
    "SpillControl",
    "SpillStop",
]
