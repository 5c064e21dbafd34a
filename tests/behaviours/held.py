"""What is held of answers and bodies, and how long that keeps others waiting."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_ANSWERS = "unit/backends/test_held_answers.py::"
_GRPC = "unit/backends/test_held_grpc.py::"
_FORWARDED = "unit/cluster/test_forwarded_answers.py::"
_SHARES = "unit/fronts/test_body_shares.py::"
_TAKERS = "unit/fronts/test_slow_takers.py::"
_STREAM = "unit/fronts/test_grpc_stream.py::"
_TEXT = "unit/pseudonyms/test_json_text.py::"
_REST = "unit/oip/test_rest_reply_bounds.py::"
_DISPATCH = "unit/test_dispatch.py::"

A9 = Behaviour(
    "A9",
    "What endpoints answer is bounded for each answer, for each caller and for all, from its first "
    "bytes until its caller has taken it; so are bodies that do not come whole. Large ones hold up "
    "no other call.",
    (
        guard(
            "a caller holds no more than is left free", "A9.caller-share",
            _ANSWERS + "test_a_caller_holds_no_more_than_is_left_free",
            _ANSWERS + "test_one_caller_cannot_multiply_the_bound_and_others_find_room",
        ),
        guard(
            "a whole answer has a bound", "A9.answer-bound",
            _ANSWERS + "test_an_endless_answer_is_cut_at_the_bound_and_held_by_nobody",
        ),
        guard(
            "an answer says by its head that it is too large", "A9.announced-size",
            _ANSWERS + "test_an_answer_that_is_announced_too_large_is_refused_by_its_head",
        ),
        guard(
            "what was given up is held no more", "A9.abandoned-release",
            _ANSWERS + "test_an_answer_that_is_given_up_is_held_no_more",
        ),
        guard(
            "small pieces of an answer are joined", "A9.chunk-joining",
            _ANSWERS + "test_small_chunks_are_held_in_little_more_than_they_measure",
        ),
        guard(
            "an event that has no end is counted", "A9.event-budget",
            _ANSWERS + "test_an_event_without_end_is_of_the_budget",
        ),
        guard(
            "large answers are not parsed", "A9.answer-passthrough",
            _ANSWERS + "test_a_large_answer_goes_on_as_it_came_and_is_counted",
        ),
        guard(
            "they are read in a thread", "A9.threaded-read",
            _ANSWERS + "test_a_large_answer_is_read_in_a_thread_and_its_connection_kept",
        ),
        guard(
            "answers of gRPC are counted", "A9.grpc-answers",
            _ANSWERS + "test_answers_of_grpc_are_of_the_same_budget",
            _GRPC + "test_what_is_gathered_counts_for_its_caller_and_others_find_room",
            _GRPC + "test_a_server_of_grpcs_own_is_bounded_as_well",
        ),
        guard(
            "what was given up of them is held no more", "A9.grpc-abandoned",
            _GRPC + "test_an_answer_of_grpc_that_is_given_up_is_held_no_more",
        ),
        guard(
            "what was refused of a stream is room for others at once", "A9.refused-release",
            _GRPC + "test_what_is_gathered_counts_for_its_caller_and_others_find_room",
        ),
        guard(
            "a message says by its beginning that it is too large", "A9.announced-message",
            _GRPC + "test_a_message_says_by_its_beginning_that_it_is_too_large",
        ),
        guard(
            "a stream that nobody reads stops at its window", "A9.stream-window",
            _GRPC + "test_a_stream_that_nobody_reads_comes_no_further_than_its_window",
        ),
        guard(
            "of a stream the last answer counts, and not those before it", "A9.taken-answer",
            _GRPC + "test_the_last_answer_of_a_stream_counts_until_the_next_has_come",
        ),
        guard(
            "responses that wait for their turn in a stream are counted", "A9.ordered-answers",
            _STREAM + "test_what_waits_to_be_sent_in_order_counts_for_its_caller",
        ),
        guard(
            "answers are counted at the owner of the server", "A9.owner-answers",
            _FORWARDED + "test_at_the_owner_answers_count_for_the_caller_they_are_for",
            _FORWARDED + "test_at_the_owner_others_find_room",
        ),
        guard(
            "and at the gateway that forwarded the call", "A9.forwarded-answers",
            _FORWARDED + "test_at_the_sender_they_count_as_well",
            _FORWARDED + "test_a_message_of_a_peer_is_counted_as_it_comes",
        ),
        guard(
            "what a peer had said of a call that ended is held no more", "A9.forwarded-release",
            _FORWARDED + "test_a_message_of_a_peer_is_counted_as_it_comes",
        ),
        guard(
            "an answer that finds no room is asked for nowhere else", "A9.no-failover",
            _DISPATCH + "test_an_answer_that_finds_no_room_is_asked_for_nowhere_else",
        ),
        guard(
            "who takes an answer slowly holds it", "A9.http-slow-reader",
            _TAKERS + "test_an_answer_is_held_until_its_caller_has_taken_it",
            _TAKERS + "test_who_takes_nothing_of_an_answer_is_gone",
        ),
        guard(
            "over gRPC, too", "A9.grpc-slow-reader",
            _TAKERS + "test_an_answer_of_grpc_is_held_until_its_caller_has_taken_it",
            _TAKERS + "test_who_takes_nothing_of_an_answer_of_grpc_is_reset",
        ),
        guard(
            "an answer that was taken is held no more", "A9.taken-release",
            _TAKERS + "test_an_answer_is_held_until_its_caller_has_taken_it",
        ),
        guard(
            "bodies of HTTP/1.1 are counted", "A9.body-budget",
            _TAKERS + "test_bodies_that_do_not_come_whole_have_one_budget",
        ),
        guard(
            "for their callers", "A9.body-caller",
            _SHARES + "test_a_caller_that_holds_its_share_leaves_room_for_others",
        ),
        guard(
            "so are messages of gRPC", "A9.message-caller",
            _SHARES + "test_strangers_are_one_caller_together",
        ),
        guard(
            "and given back", "A9.body-release",
            _TAKERS + "test_bodies_that_do_not_come_whole_have_one_budget",
        ),
        guard(
            "so is what they are inflated to", "A9.inflated-body",
            _TAKERS + "test_what_a_body_is_inflated_to_is_of_that_budget",
        ),
        guard(
            "a body has its time to come", "A9.body-time",
            _TAKERS + "test_a_body_that_does_not_come_is_waited_for_no_longer_than_its_call",
        ),
        guard(
            "long strings are restored in pieces", "A9.string-pieces",
            _TEXT + "test_no_long_string_is_restored_in_one",
        ),
        guard(
            "a restoring ends when nobody waits for it", "A9.restore-cancel",
            _TEXT + "test_a_large_answer_is_restored_beside_the_loop_until_nobody_waits",
        ),
        guard(
            "what is left of surrogates is counted as it comes", "A9.surrogate-tail",
            _TEXT + "test_a_stream_without_end_leaves_nothing_behind",
        ),
        guard(
            "JSON that is read for callers of gRPC has bounds", "A9.rest-json-bound",
            _REST + "test_more_json_than_can_be_read_is_refused_unread",
        ),
    ),
)  # fmt: skip

HELD = (A9,)
