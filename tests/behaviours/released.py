"""What a call leaves behind, which is nothing that only a collection of cycles would free."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_CALLS = "unit/test_left_by_calls.py::"
_CYCLES = "unit/test_cycles.py::"
_A_CALL = _CALLS + "test_nothing_of_a_call_is_left"
_A_CYCLE = _CYCLES + "test_no_call_leaves_a_cycle"
_HEDGED = _CYCLES + "test_nor_does_one_that_is_tried_twice_side_by_side"
_NAMED = _CYCLES + "test_nothing_on_the_way_of_a_call_names_what_it_raises"

A10 = Behaviour(
    "A10",
    "A call that has ended, however, is freed at once, with what it was sent and answered: nobody "
    "waits for Python to look for cycles, which a gateway seldom does.",
    (
        guard(
            "the frame that keeps an exception is not in its traceback", "kept.py",
            "            error.__traceback__ = trace.tb_next\n", "            pass\n",
            _CYCLES + "test_what_is_kept_has_all_of_its_traceback_but_the_frame_that_keeps_it",
        ),
        guard(
            "a failed call is raised by no name of its frame", "pipeline.py",
            "            account.settle(*ending(failed.error))\n            raise failed.again()\n",
            "            account.settle(*ending(failed.error))\n            raise failed.error\n",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "nor is an attempt that came too late", "attempt.py",
            "            failed, closing = self.failed(self._too_late())\n",
            "            late = self._too_late()\n"
            "            failed, closing = Kept(late), self.end(late)\n",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "nor what found no endpoint", "routing/policy.py",
            "            raise self._refused(request, found, vetoes, states)\n",
            "            refused = self._refused(request, found, vetoes, states)\n"
            "            raise refused\n",
            _A_CALL, _NAMED,
        ),
        guard(
            "what a route has met has no traceback", "dispatch.py",
            "        error.__traceback__ = None  #", "        #",
            _A_CYCLE,
        ),
        guard(
            "a route has not what is raised at its end", "dispatch.py",
            "        route.last = None  #", "        #",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "nor what it could try again", "dispatch.py",
            "        route.transient = ()\n", "",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "no frame has a task that failed", "hedge.py",
            "        answered = running.pop(await _first_answer(running)).result()\n",
            "        at = await _first_answer(running)\n        answered = running[at].result()\n"
            "        running.pop(at)\n",
            _CYCLES + "test_nor_do_two_tries_that_both_fail",
        ),
        guard(
            "nor an attempt the task that it waited in", "place.py",
            "        task, self._task = self._task, None", "        task = self._task",
            _HEDGED,
        ),
        guard(
            "nor who waited in a queue", "group.py",
            "            granted = None  # it keeps", "            pass  # it keeps",
            _CYCLES + "test_nor_does_one_that_waits_in_a_queue",
        ),
        guard(
            "nor within its time", "group.py",
            "            granted = None  # as", "            pass  # as",
            _CYCLES + "test_nor_does_one_that_waits_in_a_queue",
        ),
        guard(
            "no task keeps what cancelled it: of HTTP", "fronts/http.py",
            "except (ClientLeft, asyncio.CancelledError):", "except ClientLeft:",
            _A_CALL,
        ),
        guard(
            "of gRPC", "http2/exchange.py",
            "            released(left)", "            raise",
            _A_CALL,
        ),
        guard(
            "of the calls of a stream", "fronts/grpc_stream.py",
            "        except asyncio.CancelledError:\n            pass  # as above\n", "",
            _A_CALL,
        ),
        guard(
            "of what reads them", "fronts/grpc_stream.py",
            "        except asyncio.CancelledError as left:\n            released(left)\n", "",
            _A_CALL,
        ),
        guard(
            "what a group of tasks raised is released", "fronts/grpc_server.py",
            "            released(exc)\n", "",
            _CALLS + "test_nothing_of_a_stream_with_a_malformed_message_is_left",
        ),
        guard(
            "and has none of its frames before", "fronts/grpc_stream.py",
            "            released(broken)\n", "",
            _CALLS + "test_nothing_of_a_stream_with_a_malformed_message_is_left",
        ),
        guard(
            "a message that cannot be read is not kept by its refusal", "fronts/grpc_stream.py",
            "error.with_traceback(None)", "error",
            _A_CALL,
        ),
        guard(
            "nor a call without a key", "fronts/grpc_server.py",
            "error.with_traceback(None)", "error",
            _CYCLES + "test_nor_does_one_without_a_key",
        ),
        guard(
            "a call of gRPC is not kept by how it ended", "backends/grpc_wire.py",
            "            del answer, call  #", "            #",
            _A_CALL, _CYCLES + "test_nor_does_a_question_over_grpc",
        ),
        guard(
            "a connection has not the stream that flowed over it", "backends/connection.py",
            "            self._take = self._hand_on = self._usual = None\n",
            "            self._take = self._usual = None\n",
            _CALLS + "test_nothing_of_a_stream_that_breaks_off_is_left",
        ),
        guard(
            "nor how it broke", "backends/connection.py",
            "            return copy(self._failure)", "            return self._failure",
            _CALLS + "test_nothing_is_left_where_an_endpoint_does_not_speak_http",
        ),
        guard(
            "nor a stream how it ended", "backends/openai.py",
            "                failed, progress.failure = Kept(progress.failure), None\n"
            "                raise failed.again()\n",
            "                raise progress.failure\n",
            _NAMED,
        ),
        guard(
            "a record is not kept by who waits for it in vain", "accounting/account.py",
            "            raise copy(failed)", "            raise failed",
            _CYCLES + "test_nor_does_one_whose_record_is_not_durable",
        ),
        guard(
            "nor texts by a scan that failed", "classify/names/local.py",
            "            del job  #", "            pass  #",
            _CYCLES + "test_nor_does_one_whose_names_cannot_be_read",
        ),
    ),
)  # fmt: skip

RELEASED = (A10,)
