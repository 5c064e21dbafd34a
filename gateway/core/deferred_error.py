"""An exception that is raised once nothing is handled any more.

A coroutine that waits inside `except` or `finally` handles an exception while others run. Python
keeps apart what each of them handles; code compiled by mypyc 2.4 does not, and raises or clears
what another call has there. So whatever may be compiled leaves the handler first, waits, and raises
then (`tests/unit/test_compiled.py` looks for who does not).
"""

from __future__ import annotations


def released(error: BaseException) -> None:
    """Of an exception that is told of by now. The frames of a task group name what they raise, and
    would be held by it, with whatever the group's tasks were given."""
    error.__traceback__ = None
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            released(each)


class DeferredError:
    """To be made by the frame that has caught the exception, or has made it. That frame is taken
    out of its traceback: they would hold each other, and all of the call, until somebody looks for
    garbage, if another exception ended the wait."""

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        if (trace := error.__traceback__) is not None:
            error.__traceback__ = trace.tb_next  # guard: A10.keeping-frame

    @property
    def error(self) -> BaseException:
        assert self._error is not None
        return self._error

    def again(self) -> BaseException:
        """To be raised, and not kept any longer: its traceback holds this frame from now on."""
        error, self._error = self.error, None
        return error
