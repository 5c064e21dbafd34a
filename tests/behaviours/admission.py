"""Admission, and what a call holds."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_ALIKE = "unit/fronts/test_refusals.py::test_every_front_refuses_alike"
_KILLS = (
    "properties/test_everything_is_given_back.py::test_kills_at_every_await_point_leave_nothing"
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
            "no more calls in the gateway than the settings say", "A1.gateway-limit",
            _ALIKE,
            "unit/test_admission.py::test_as_many_enter_as_there_is_room_for",
        ),
        guard(
            "nor of one tenant", "A1.tenant-limit",
            _ALIKE,
            "unit/test_admission.py::test_one_tenant_cannot_take_the_room_of_the_others",
        ),
        guard(
            "a gateway that stops takes none", "A1.stopping",
            _ALIKE,
            "unit/test_admission.py::test_a_stopping_gateway_lets_nobody_in_and_everybody_out",
        ),
        guard(
            "who would be late behind those that wait for the cloud is told at once",
            "A1.cloud-queue-time",
            "unit/test_clouds.py::"
            "test_a_call_for_which_there_is_no_time_behind_the_others_is_told_at_once",
        ),
        guard(
            "a full queue takes none", "A1.queue-limit",
            _ALIKE,
            "unit/test_group.py::test_a_full_queue_refuses_at_once_and_says_when_to_come_back",
        ),
        guard(
            "the time to come back is told", "A1.retry-after",
            _ALIKE,
        ),
        guard(
            "and the reason", "A1.refusal-reason",
            _ALIKE,
            "unit/fronts/test_kserve.py::"
            "test_a_failure_has_tritons_shape_a_reason_and_a_time_to_retry",
        ),
        guard(
            "gRPC's metadata of a refusal", "A1.grpc-refusal",
            _ALIKE,
            "unit/fronts/test_grpc_front.py::test_every_failure_has_its_status_words_and_trailers",
        ),
        guard(
            "a refusal within a gRPC stream has its words", "A1.stream-refusal",
            _ALIKE,
        ),
        guard(
            "a call that hopes in vain is told at once", "A1.lost-hope",
            _TENDING
            + "test_hope_that_comes_to_nothing_ends_the_wait_and_there_is_none_for_the_next_call",
        ),
        guard(
            "and one that hopes for what nobody expects any more", "A1.expired-hope",
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
            "the turn", "A2.turn-release",
            _KILLS,
        ),
        guard(
            "the turn of a caller who leaves", "A2.departed-turn",
            _KILLS,
        ),
        guard(
            "a turn that is granted in the step in which its caller leaves", "A2.granted-turn",
            "unit/test_group.py::"
            "test_a_caller_who_leaves_in_the_step_in_which_it_is_called_up_gives_its_turn_back",
        ),
        guard(
            "the place of who leaves the queue", "A2.queue-place",
            "unit/test_group.py::test_a_caller_who_leaves_while_it_waits_gives_its_place_up",
        ),
        guard(
            "or else its turn, when it is granted", "A2.cancelled-grant",
            _QUEUE_KILLS,
        ),
        guard(
            "a turn is given back once", "A2.single-release",
            "unit/test_group.py::test_a_turn_that_is_released_twice_frees_one_place",
        ),
        guard(
            "calls in flight", "A2.inflight-release",
            _KILLS,
        ),
        guard(
            "money that was put aside", "A2.spend-release",
            _CLOSED + "test_what_was_put_aside_is_there_again_when_calls_have_ended",
        ),
        guard(
            "the place in the gateway", "A2.admission-release",
            _KILLS,
        ),
        guard(
            "the account of a stream whose caller leaves", "A2.stream-account",
            _DISPATCH + "test_a_caller_who_leaves_a_stream_closes_the_upstream_at_once",
        ),
        guard(
            "an account is settled once", "A2.single-settlement",
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
            "an HTTP caller who leaves before the answer", "A3.http-disconnect",
            _FRONT + "test_a_caller_that_leaves_cancels_its_call",
        ),
        guard(
            "an HTTP caller who leaves a stream", "A3.http-stream-close",
            _FRONT + "test_a_stream_is_closed_when_its_caller_leaves",
            _FRONT + "test_a_stream_is_closed_when_its_caller_left_before_it_began",
        ),
        guard(
            "a reply that comes as its caller leaves", "A3.late-reply",
            "unit/http/test_exchange.py::test_a_stream_for_one_who_has_left_is_closed_unread",
        ),
        guard(
            "a gRPC caller who leaves", "A3.grpc-disconnect",
            "unit/fronts/test_grpc_front.py::test_a_caller_that_leaves_is_noticed_at_once",
        ),
        guard(
            "a gRPC caller who leaves within the answer", "A3.grpc-answer-close",
            "unit/fronts/test_grpc_front.py::"
            "test_a_caller_that_leaves_within_an_answer_closes_it",
        ),
        guard(
            "a gRPC stream whose caller leaves", "A3.grpc-stream-close",
            "unit/fronts/test_grpc_stream.py::"
            "test_a_caller_that_leaves_ends_everything_in_flight_at_once",
        ),
        guard(
            "the endpoint's stream is closed", "A3.upstream-close",
            _DISPATCH + "test_a_caller_who_leaves_a_stream_closes_the_upstream_at_once",
        ),
        guard(
            "a cancelled attempt is recorded and paid", "A3.cancelled-record",
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
