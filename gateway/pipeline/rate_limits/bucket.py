"""A token bucket that is filled by the time that passes. It never waits."""

from __future__ import annotations

_MINUTE_S = 60.0
_ROUNDING_S = 1e-6  # of sums of times; else who waits as long as it was told is refused again


class Bucket:
    """Holds a minute's worth. What is taken without asking may leave it below empty: then nothing
    can be taken until it has filled up again."""

    __slots__ = ("_at_s", "_level", "most")

    def __init__(self, most: float, now_s: float) -> None:
        self.most = most
        self._level = most
        self._at_s = now_s

    def be(self, used: float, at_s: float) -> None:
        """As another process left it."""
        self._level, self._at_s = self.most - used, at_s

    def level(self, now_s: float) -> float:
        passed_s = now_s - self._at_s
        if passed_s > 0.0:
            self._at_s = now_s
            level = self._level + passed_s * self.most / _MINUTE_S
            self._level = level if level < self.most else self.most
        return self._level

    def short_s(self, amount: float, now_s: float) -> float:
        """How long until that much is there; 0 when it is. Who needs more than a whole minute's
        worth gets it from a full bucket, and its debt holds up whoever comes next."""
        level = self.level(now_s)
        if level >= amount:
            return 0.0
        missing_s = (min(amount, self.most) - level) * _MINUTE_S / self.most
        return missing_s if missing_s > _ROUNDING_S else 0.0

    def take(self, amount: float, now_s: float) -> None:
        """Without asking; less than 0 gives back."""
        self._level = min(self.most, self.level(now_s) - amount)

    def full_s(self, now_s: float) -> float:
        return (self.most - self.level(now_s)) * _MINUTE_S / self.most
