"""An exception that is raised once nothing is handled any more.

A coroutine that waits inside `except` or `finally` handles an exception while others run. Python
keeps apart what each of them handles; code compiled by mypyc 2.4 does not, and raises or clears
what another call has there. So whatever may be compiled leaves the handler first, waits, and raises
then (`tests/unit/test_compiled.py` looks for who does not).
"""

from __future__ import annotations


class Kept:
    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error

    @property
    def error(self) -> BaseException:
        assert self._error is not None
        return self._error

    def again(self) -> BaseException:
        """To be raised, and not kept any longer: a frame that keeps an exception is kept by it in
        turn, by its traceback, with all of the call, until somebody looks for garbage."""
        error, self._error = self.error, None
        return error
