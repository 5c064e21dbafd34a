"""Admission, and what a call holds."""

from __future__ import annotations

from tests.behaviours import Behaviour, Guard, guard
from tests.simulation.mutations import Change

_ALIKE = "unit/fronts/test_refusals.py::test_every_front_refuses_alike"
_KILLS = (
    "properties/test_everything_is_given_back.py::"
    "test_over_a_thousand_kills_at_every_await_point_leave_nothing"
)
_QUEUE_KILLS = (
    "properties/test_everything_is_given_back.py::"
    "test_kills_of_who_waits_in_the_queue_leave_nothing"
)
_DISPATCH = "unit/test_dispatch.py::"
_FRONT = "unit/fronts/test_http.py::"
_HEDGE = "unit/test_hedge.py::"
_CLOSED = "unit/test_closed_cloud.py::"
_TENDING = "unit/test_tending.py::"

A1 = Behaviour(
    "A1",
    "What cannot be served is refused at once, with 429 or 503 (RESOURCE_EXHAUSTED or "
    "UNAVAILABLE), a reason and the time to come back, by one policy on every front: REST, "
    "OpenAI, its event streams and gRPC.",
    (
        guard(
            "no more calls in the gateway than the settings say", "admission.py",
            "if self.inside >= self.limits.max_concurrent:", "if False:",
            _ALIKE, "unit/test_admission.py::test_as_many_enter_as_there_is_room_for",
        ),
        guard(
            "nor of one tenant", "admission.py",
            "if self._by_tenant.get(request.tenant, 0) >= self.limits.max_concurrent_per_tenant:",
            "if False:",
            _ALIKE, "unit/test_admission.py::test_one_tenant_cannot_take_the_room_of_the_others",
        ),
        guard(
            "a gateway that stops takes none", "admission.py",
            "        if self.draining:\n", "        if False:\n",
            _ALIKE,
            "unit/test_admission.py::test_a_stopping_gateway_lets_nobody_in_and_everybody_out",
        ),
        guard(
            "who would be late behind those that wait for the cloud is told at once", "clouds.py",
            "        if self._clock() + min(waits_s, default=math.inf) > latest_s:\n",
            "        if False:\n",
            "unit/test_clouds.py::"
            "test_a_call_for_which_there_is_no_time_behind_the_others_is_told_at_once",
        ),
        guard(
            "a full queue takes none", "scheduling/scheduler.py",
            "        if len(self._places) >= self.tuning.max_waiting:\n", "        if False:\n",
            _ALIKE,
            "unit/test_group.py::test_a_full_queue_refuses_at_once_and_says_when_to_come_back",
        ),
        guard(
            "the time to come back is told", "fronts/intake.py",
            "        told[\"retry-after\"] = str(max(1, round(error.retry_after_s + 0.5)))\n", "",
            _ALIKE,
        ),
        guard(
            "and the reason", "fronts/intake.py",
            '    told["x-spillway-reason"] = error.reason\n', "",
            _ALIKE, "unit/fronts/test_kserve.py::"
            "test_a_failure_has_tritons_shape_a_reason_and_a_time_to_retry",
        ),
        guard(
            "gRPC's metadata of a refusal", "fronts/grpc_calls.py",
            "    told = tuple(intake.error_headers(arrival, error).items())\n", "    told = ()\n",
            _ALIKE,
            "unit/fronts/test_grpc_front.py::test_every_failure_has_its_status_words_and_trailers",
        ),
        guard(
            "a refusal within a gRPC stream has its words", "fronts/grpc_stream.py",
            "StreamFrame(response, error.message or error.reason)", "StreamFrame(response, 'x')",
            _ALIKE,
        ),
        guard(
            "a call that hopes in vain is told at once", "tending.py",
            "            self._fleet.still_out(model)\n", "            pass\n",
            _TENDING
            + "test_hope_that_comes_to_nothing_ends_the_wait_and_there_is_none_for_the_next_call",
        ),
        guard(
            "and one that hopes for what nobody expects any more", "fleet.py",
            " and self.back_in_s(request.model) is not None:", ":",
            _TENDING + "test_a_wait_for_what_nobody_expects_any_more_ends_soon",
        ),
    ),
)  # fmt: skip

A2 = Behaviour(
    "A2",
    "Whatever a call holds (its place in the gateway and in the queue, its turn at a server, "
    "money, an open connection) is given back exactly once, however the call ends.",
    (
        guard(
            "the turn", "attempt.py",
            "            self.turn.release(self.answered)\n", "            pass\n", _KILLS,
        ),
        Guard(
            "the turn of a caller who leaves",
            (
                Change(
                    "attempt.py",
                    'Kept(exc), self.end(None, "cancelled")\n        except EgressForbidden',
                    "Kept(exc), None\n        except EgressForbidden",
                ),
                Change(
                    "dispatch.py",
                    "        await attempt.aclose()\n        raise left.again()\n",
                    "        raise left.again()\n",
                ),
            ),
            (_KILLS,),
        ),
        guard(
            "a turn that is granted in the step in which its caller leaves", "group.py",
            "            self.ended(call, answered=False)\n\n    def _happens",
            "            pass\n\n    def _happens",
            "unit/test_group.py::"
            "test_a_caller_who_leaves_in_the_step_in_which_it_is_called_up_gives_its_turn_back",
        ),
        guard(
            "the place of who leaves the queue", "group.py",
            "        except BaseException:  # the caller left: give back what may have been granted"
            " just now\n            self._withdraw(call, granted)\n            raise\n",
            "        except BaseException:\n            raise\n",
            "unit/test_group.py::test_a_caller_who_leaves_while_it_waits_gives_its_place_up",
        ),
        Guard(
            "or else its turn, when it is granted",
            (
                Change(
                    "group.py",
                    " just now\n            self._withdraw(call, granted)\n            raise\n",
                    " just now\n            raise\n",
                ),
                Change(
                    "group.py",
                    "in this very step\n                    self.ended(call, answered=False)\n",
                    "in this very step\n                    pass\n",
                ),
            ),
            (_QUEUE_KILLS,),
        ),
        Guard(
            "a turn is given back once",
            (
                Change(
                    "group.py",
                    "        if not self._released:\n            self._released = True\n",
                    "        if True:\n            self._released = True\n",
                ),
                Change(
                    "scheduling/servers.py",
                    "self._with.pop(call_id, None)", "self._with.get(call_id)",
                ),
            ),
            ("unit/test_group.py::test_a_turn_that_is_released_twice_frees_one_place",),
        ),
        guard(
            "calls in flight", "attempt.py",
            "            self.fleet.ended(self.endpoint, self.request.model)\n",
            "            pass\n", _KILLS,
        ),
        guard(
            "money that was put aside", "attempt.py",
            "            self.reserved.settle(attempt.cost.nano_usd)\n", "            pass\n",
            _CLOSED + "test_what_was_put_aside_is_there_again_when_calls_have_ended",
        ),
        guard(
            "the place in the gateway", "admission.py", "        self.inside -= 1\n", "",
            _KILLS,
        ),
        guard(
            "the account of a stream whose caller leaves", "pipeline.py",
            '            self._settle(Outcome.CANCELLED, "caller_left")\n', "            pass\n",
            _DISPATCH + "test_a_caller_who_leaves_a_stream_closes_the_upstream_at_once",
        ),
        guard(
            "an account is settled once", "accounting/account.py",
            "        if self._settled:\n            return\n", "",
            "unit/test_account.py::"
            "test_what_a_call_holds_is_given_back_once_however_often_it_settles",
        ),
    ),
)  # fmt: skip

A3 = Behaviour(
    "A3",
    "When a caller leaves, the endpoint's side of its call is closed within 100 ms and what it "
    "cost is settled.",
    (
        guard(
            "an HTTP caller who leaves before the answer", "http/exchange.py",
            "            self.task.cancel()\n", "            pass\n",
            _FRONT + "test_a_caller_that_leaves_cancels_its_call",
        ),
        guard(
            "an HTTP caller who leaves a stream", "http/exchange.py",
            "        await asyncio.shield(content.aclose())\n", "",
            _FRONT + "test_a_stream_is_closed_when_its_caller_leaves",
            _FRONT + "test_a_stream_is_closed_when_its_caller_left_before_it_began",
        ),
        guard(
            "a reply that comes as its caller leaves", "http/exchange.py",
            "            if self.left:\n                raise ClientLeft\n            line, ",
            "            line, chunked",
            "unit/http/test_exchange.py::test_a_stream_for_one_who_has_left_is_closed_unread",
        ),
        guard(
            "a gRPC caller who leaves", "http2/exchange.py",
            "            self.task.cancel()\n", "            pass\n",
            "unit/fronts/test_grpc_front.py::test_a_caller_that_leaves_is_noticed_at_once",
        ),
        guard(
            "a gRPC caller who leaves within the answer", "fronts/grpc_calls.py",
            "        await asyncio.shield(frames.aclose())\n", "        pass\n",
            "unit/fronts/test_grpc_front.py::"
            "test_a_caller_that_leaves_within_an_answer_closes_it",
        ),
        guard(
            "a gRPC stream whose caller leaves", "fronts/grpc_stream.py",
            "                await asyncio.shield(reply.frames.aclose())\n",
            "                pass\n",
            "unit/fronts/test_grpc_stream.py::"
            "test_a_caller_that_leaves_ends_everything_in_flight_at_once",
        ),
        guard(
            "the endpoint's stream is closed", "attempt.py",
            "    return asyncio.ensure_future(stream.aclose())\n", "    return None\n",
            _DISPATCH + "test_a_caller_who_leaves_a_stream_closes_the_upstream_at_once",
        ),
        guard(
            "a cancelled attempt is recorded and paid", "attempt.py",
            "        self.log.attempted(attempt)\n", "",
            _HEDGE + "test_a_first_answer_that_comes_after_all_ends_the_second_try",
            _HEDGE + "test_a_caller_who_leaves_ends_both_tries",
        ),
    ),
    also=(
        _DISPATCH
        + "test_a_caller_who_leaves_before_the_answer_closes_the_upstream_within_100_ms",
        "scenarios/test_lifecycle.py::test_a_caller_who_leaves_closes_the_call_in_the_cloud",
        "scenarios/test_lifecycle.py::test_callers_who_leave_free_everything",
    ),
)  # fmt: skip

ADMISSION = (A1, A2, A3)
