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
            "the frame that keeps an exception is not in its traceback", "A10.keeping-frame",
            _CYCLES + "test_what_is_kept_has_all_of_its_traceback_but_the_frame_that_keeps_it",
        ),
        guard(
            "what cuts a call is raised by no name of its frame", "A10.failed-call",
            _CYCLES + "test_nor_does_one_that_waits_in_a_queue",
        ),
        guard(
            "nor is an attempt that came too late", "A10.late-attempt",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "nor what found no endpoint", "A10.refused-placement",
            _A_CALL, _NAMED,
        ),
        guard(
            "what a route has met has no traceback", "A10.route-traceback",
            _CYCLES + "test_nor_does_one_that_is_answered_elsewhere",
        ),
        guard(
            "a route has not what is raised at its end", "A10.route-failure",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "nor what it could try again", "A10.route-transient",
            _A_CALL, _A_CYCLE,
        ),
        guard(
            "no frame has a task that failed", "A10.failed-task",
            _CYCLES + "test_nor_do_two_tries_that_both_fail",
        ),
        guard(
            "nor an attempt the task that it waited in", "A10.waiting-task",
            _HEDGED,
        ),
        guard(
            "nor who waited in a queue", "A10.queue-turn",
            _CYCLES + "test_nor_does_one_that_waits_in_a_queue",
        ),
        guard(
            "nor within its time", "A10.queue-grant",
            _CYCLES + "test_nor_does_one_that_waits_in_a_queue",
        ),
        guard(
            "no task keeps what cancelled it: of HTTP", "A10.http-cancellation",
            _A_CALL,
        ),
        guard(
            "of gRPC", "A10.grpc-cancellation",
            _A_CALL,
        ),
        guard(
            "of the calls of a stream", "A10.stream-call",
            _A_CALL,
        ),
        guard(
            "of what reads them", "A10.stream-reader",
            _A_CALL,
        ),
        guard(
            "what a group of tasks raised is released", "A10.group-failure",
            _CALLS + "test_nothing_of_a_stream_with_a_malformed_message_is_left",
        ),
        guard(
            "and has none of its frames before", "A10.group-frames",
            _CALLS + "test_nothing_of_a_stream_with_a_malformed_message_is_left",
        ),
        guard(
            "a message that cannot be read is not kept by its refusal", "A10.unread-message",
            _A_CALL,
        ),
        guard(
            "nor a call without a key", "A10.keyless-call",
            _CYCLES + "test_nor_does_one_without_a_key",
        ),
        guard(
            "a call of gRPC is not kept by how it ended", "A10.grpc-failure",
            _A_CALL, _CYCLES + "test_nor_does_a_question_over_grpc",
        ),
        guard(
            "nor how it broke", "A10.broken-connection",
            _CALLS + "test_nothing_is_left_where_an_endpoint_does_not_speak_http",
        ),
        guard(
            "nor a stream how it ended", "A10.ended-stream",
            _NAMED,
        ),
        guard(
            "a record is not kept by who waits for it in vain", "A10.failed-record",
            _CYCLES + "test_nor_does_one_whose_record_is_not_durable",
        ),
        guard(
            "nor texts by a scan that failed", "A10.failed-scan",
            _CYCLES + "test_nor_does_one_whose_names_cannot_be_read",
        ),
    ),
)  # fmt: skip

RELEASED = (A10,)
