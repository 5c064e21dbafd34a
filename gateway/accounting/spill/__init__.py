"""What holds back calls that could leave: money, a switch, and what the cloud can take.

None of this clears a call: it only takes the cloud away from calls that were cleared.
"""

from gateway.accounting.spill.budget import Reservation, SpillBudgets
from gateway.accounting.spill.concurrency import AdaptiveLimit
from gateway.accounting.spill.control import SpillControl
from gateway.accounting.spill.stop import SpillStop
from gateway.accounting.spill.waiting import CloudLine, CloudPace

__all__ = [
    "AdaptiveLimit",
    "CloudLine",
    "CloudPace",
    "Reservation",
    "SpillBudgets",
    "SpillControl",
    "SpillStop",
]
