"""Streams, failover and hedges."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_DISPATCH = "unit/test_dispatch.py::"
_STREAMS = "unit/test_silent_streams.py::"
_FRONT = "unit/fronts/test_http.py::"
_BREAKER = "unit/test_breaker.py::"
_HEDGE = "unit/test_hedge.py::"
_CLOSED = "unit/test_closed_cloud.py::"
_HEALTHY = (
    "properties/test_healthy_cloud.py::"
    "test_a_healthy_cloud_is_never_closed_by_its_callers_deadlines"
)
_CALLER = "unit/test_one_caller.py::"
_AGAIN = "unit/test_retry_in_place.py::"
_TENDING = "unit/test_tending.py::"

_BROKEN = "            failed, closing = Kept(exc), attempt.end(exc)\n"

A4 = Behaviour(
    "A4",
    "Before the first byte of an answer another endpoint may be tried, after it none. An answer "
    "that breaks then ends with an error within the stream, never as if it were whole, and "
    "nothing of it is said twice.",
    (
        guard(
            "no second attempt after the first frame", "A4.first-frame",
            _DISPATCH + "test_after_the_first_frame_a_broken_stream_ends_with_its_error_"
            "and_no_second_answer",
        ),
        guard(
            "a broken stream is no whole one", "A4.broken-stream",
            _DISPATCH + "test_after_the_first_frame_a_broken_stream_ends_with_its_error_"
            "and_no_second_answer",
        ),
        guard(
            "no `[DONE]` behind an error", "A4.no-done",
            "unit/fronts/test_openai_front.py::"
            "test_a_broken_stream_tells_it_in_band_and_never_done",
        ),
        guard(
            "the error is in the event stream", "A4.in-band-error",
            "unit/fronts/test_openai_front.py::"
            "test_a_broken_stream_tells_it_in_band_and_never_done",
        ),
        guard(
            "a provider's stream that is cut is not whole", "A4.cut-stream",
            "unit/backends/test_openai_connector.py::test_a_cut_stream_never_looks_whole",
        ),
        guard(
            "who waits for a frame of an endpoint that goes out is told", "A4.ejected-endpoint",
            _STREAMS + "test_a_silent_stream_ends_soon_after_its_endpoint_went_out",
        ),
        guard(
            "a stream that goes on is left alone", "A4.active-stream",
            _STREAMS + "test_a_stream_that_goes_on_when_its_endpoint_is_out_may_end",
        ),
        guard(
            "a stream of a model that became slow goes on", "A4.slow-model",
            _STREAMS + "test_a_stream_of_a_model_that_became_slow_may_end",
        ),
    ),
    also=(
        _FRONT + "test_a_stream_that_breaks_has_no_end",
        "scenarios/test_lifecycle.py::test_a_budget_that_runs_out_mid_stream_ends_it_in_band",
        "scenarios/test_frozen_streams.py::test_a_stream_from_a_triton_that_freezes_"
        "ends_in_band_and_not_as_if_it_were_whole",
    ),
)  # fmt: skip

A5 = Behaviour(
    "A5",
    "Another endpoint is tried when one cannot be reached, answers 429 or 5xx, or falls silent; "
    "not after a 4xx or a refusal, and never more often than the settings and the second tries in "
    "hand allow. Where there is no other, the same one is, after a pause, if its failure may be "
    "over in a moment; what the gateway has not tried its caller may.",
    (
        guard(
            "a refusal is final", "A5.final-refusal",
            _DISPATCH + "test_what_another_endpoint_could_not_mend_does_not_fail_over",
        ),
        guard(
            "a failure of the endpoint is not", "A5.failover",
            _DISPATCH + "test_a_failure_of_the_endpoint_fails_over",
        ),
        guard(
            "a cloud that is full is waited for", "A5.cloud-full-wait",
            "unit/test_clouds.py::test_what_failed_on_the_premises_waits_too",
        ),
        guard(
            "also one that was tried first", "A5.cloud-first-wait",
            "unit/test_clouds.py::test_what_found_the_cloud_full_before_it_"
            "failed_on_the_premises_waits_too",
        ),
        guard(
            "no more endpoints than the settings say", "A5.endpoint-limit",
            _DISPATCH + "test_no_more_endpoints_are_tried_than_the_policy_says",
        ),
        guard(
            "second tries are few", "A5.retry-budget",
            "unit/test_retries.py::"
            "test_when_everything_fails_the_tries_are_at_most_a_tenth_over_the_reserve",
        ),
        guard(
            "and are asked for", "A5.retry-permit",
            _CLOSED + "test_a_call_is_tried_again_only_while_second_tries_are_in_hand",
            _CLOSED
            + "test_under_total_failure_the_tries_are_at_most_a_tenth_more_than_the_calls",
        ),
        guard(
            "the only endpoint is tried again", "A5.sole-endpoint",
            _AGAIN + "test_the_only_endpoint_is_tried_again",
        ),
        guard(
            "not with a call of a sequence", "A5.sequence-once",
            _AGAIN + "test_a_call_of_a_sequence_is_never_sent_twice",
        ),
        guard(
            "not before it said", "A5.retry-after",
            _AGAIN + "test_it_waits_as_long_as_the_endpoint_said",
        ),
        guard(
            "not where that is too long", "A5.retry-after-bound",
            _AGAIN + "test_where_that_is_too_long_the_caller_is_told",
        ),
        guard(
            "not without a second try in hand", "A5.sole-permit",
            _AGAIN + "test_a_provider_that_fails_all_calls_is_not_doubled_in_load",
        ),
        guard(
            "what is out is not tried again", "A5.ejected-retry",
            _AGAIN + "test_an_endpoint_that_went_out_meanwhile_is_not_tried_again",
        ),
        guard(
            "who may try again is told", "A5.client-retry",
            _AGAIN + "test_while_no_second_try_is_in_hand_the_caller_may_try_again",
        ),
        guard(
            "429 is busy", "A5.busy-status",
            "unit/backends/test_openai_connector.py::test_a_status_has_its_class",
        ),
        guard(
            "a try without an answer is given up", "A5.answer-timeout",
            "unit/health/test_tries.py::"
            "test_a_try_is_given_up_long_before_a_far_deadline_and_the_call_goes_elsewhere",
        ),
        guard(
            "a stream that stops is given up", "A5.stream-timeout",
            _STREAMS + "test_a_stream_that_stops_is_given_up_long_before_a_far_deadline",
        ),
        guard(
            "but not where frames take long", "A5.frame-patience",
            _STREAMS + "test_where_frames_take_long_a_stream_may_be_silent_for_long",
        ),
    ),
)  # fmt: skip

A6 = Behaviour(
    "A6",
    "An endpoint that fails too often is left alone, for all calls, those included that wait for "
    "it, or, where only one caller meets that, for that caller; what one prompt provokes counts "
    "once; one call or canary at a time finds out whether it is back. Where nothing is left calls "
    "fail at once.",
    (
        guard(
            "three failures in a row open it", "A6.failure-streak",
            _BREAKER + "test_three_failures_in_a_row_open_it_and_two_do_not",
        ),
        guard(
            "a rate with a least sample", "A6.failure-rate",
            _BREAKER + "test_half_of_the_calls_failing_opens_it_once_there_are_ten",
        ),
        guard(
            "one probe at a time", "A6.half-open-probe",
            _BREAKER + "test_after_the_cool_down_one_call_alone_is_let_through",
        ),
        guard(
            "only canaries bring back what they can reach", "A6.canary-return",
            "unit/health/test_lane.py::test_only_canaries_bring_back_what_they_can_reach",
        ),
        guard(
            "calls from before the opening tell nothing", "A6.stale-outcomes",
            _BREAKER
            + "test_calls_from_before_the_opening_neither_close_it_nor_pass_for_the_probe",
        ),
        guard(
            "one caller's failures are that caller's", "A6.caller-failures",
            _CALLER + "test_what_one_caller_provokes_is_out_for_that_caller_alone",
            _CALLER + "test_a_probe_that_one_caller_spoils_keeps_it_from_nobody",
        ),
        guard(
            "it is out for that caller", "A6.caller-ejection",
            _CALLER + "test_what_one_caller_provokes_is_out_for_that_caller_alone",
        ),
        guard(
            "the same prompt counts once", "A6.prompt-dedup",
            _CALLER + "test_one_prompt_takes_it_from_nobody_whoever_sends_it",
        ),
        guard(
            "several callers' are the endpoint's", "A6.caller-quorum",
            _CALLER + "test_failures_that_several_callers_meet_take_it_out_for_all",
        ),
        guard(
            "a connection that cannot be made is nobody's", "A6.connect-failure",
            _CALLER + "test_a_connection_that_cannot_be_made_is_nobodys_call",
        ),
        guard(
            "a deadline says nothing unless answers usually come much sooner",
            "A6.deadline-evidence",
            _HEALTHY,
            "unit/test_cloud_room.py::test_a_deadline_in_the_cloud_tells_of_the_cloud_"
            "when_it_was_a_fair_one",
        ),
        guard(
            "by those too that were not awaited", "A6.unawaited-answers",
            "unit/test_cloud_room.py::"
            "test_a_cloud_of_quick_and_long_answers_is_not_out_because_only_the_quick_are_awaited",
        ),
        guard(
            "what is out is not asked", "A6.ejected-filter",
            "unit/test_filters.py::test_what_is_out_is_not_asked",
        ),
        guard(
            "who waits when it goes out goes elsewhere", "A6.ejected-reroute",
            "unit/test_door_and_turns.py::"
            "test_a_call_that_is_at_the_door_when_its_cloud_goes_out_is_not_sent_there",
        ),
        guard(
            "who waits for an answer is told", "A6.ejected-waiter",
            _STREAMS + "test_a_silent_stream_ends_soon_after_its_endpoint_went_out",
        ),
        guard(
            "a call with no other place waits for a canary that is about to pass", "A6.canary-wait",
            _TENDING + "test_a_call_waits_for_the_canary_of_a_server_that_is_up_again",
        ),
        guard(
            "a slow spell that is over hides no hang", "A6.slow-spell-end",
            _TENDING + "test_a_slow_spell_that_is_over_does_not_hide_a_hang_that_follows",
        ),
        guard(
            "an embedded server that answers nothing is started again", "A6.embedded-restart",
            "unit/test_embedded_triton.py::"
            "test_a_server_that_answers_nothing_is_killed_and_started_again",
        ),
    ),
    also=(
        _TENDING + "test_a_passing_probe_never_brings_back_what_canaries_do_not",
        "scenarios/test_healing.py::test_a_server_that_stays_stopped_is_started_again",
    ),
)  # fmt: skip

A7 = Behaviour(
    "A7",
    "A second try beside a late first one (a hedge) is off by default, only for calls without any "
    "effect, only where the call may go and within its tries; the loser is cancelled, and paid "
    "for.",
    (
        guard(
            "off by default", "A7.default-off",
            "unit/test_default_settings.py::test_calls_are_not_hedged_unless_the_settings_say_so",
        ),
        guard(
            "the switch is asked", "A7.hedge-switch",
            _HEDGE + "test_it_is_off_unless_it_is_asked_for",
        ),
        guard(
            "only calls without effect", "A7.idempotent-only",
            _HEDGE + "test_a_call_with_an_effect_is_sent_once",
        ),
        guard(
            "only in the allowed zones", "A7.hedge-zones",
            _HEDGE + "test_a_place_outside_the_allowed_zones_is_no_second_try",
        ),
        guard(
            "the door is asked", "A7.hedge-door",
            _HEDGE + "test_a_second_try_in_the_cloud_is_read_in_full_first",
        ),
        guard(
            "within the tries of a call", "A7.attempt-limit",
            _HEDGE + "test_where_one_endpoint_may_be_tried_there_is_no_second_beside_it",
        ),
        guard(
            "it is one of them", "A7.attempt-count",
            _HEDGE + "test_a_try_beside_another_is_one_of_those_that_a_call_has",
        ),
        guard(
            "it is taken from the second tries in hand", "A7.retry-budget",
            _HEDGE + "test_hedges_are_taken_from_the_second_tries_in_hand",
        ),
        guard(
            "the loser is cancelled", "A7.loser-cancel",
            _HEDGE + "test_whoever_answers_first_counts_and_the_other_is_cancelled_and_paid_for",
        ),
        guard(
            "it is on record before the call ends", "A7.loser-record",
            _HEDGE + "test_a_caller_who_leaves_ends_both_tries",
        ),
        guard(
            "and paid for", "A7.loser-cost",
            _HEDGE + "test_a_first_answer_that_comes_after_all_ends_the_second_try",
        ),
    ),
)  # fmt: skip

FAILOVER = (A4, A5, A6, A7)
