"""Deadlines."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_DISPATCH = "unit/test_dispatch.py::"
_DOOR = "unit/test_door_and_turns.py::"
_GROUP = "unit/test_group.py::"
_LINE = "unit/scheduling/test_scheduler.py::"
_HEADERS = "unit/test_budget.py::"
_BURSTS = "unit/test_bursts.py::"
_RECOVERY = "unit/test_recovery.py::"
_GRPC = "unit/backends/test_oip_grpc.py::"
_FRONT = "unit/fronts/test_http.py::"
_SLOWER = "unit/test_slower_server.py::"
_HEDGE = "unit/test_hedge.py::"

D1 = Behaviour(
    "D1",
    "What the caller says of its time (`x-latency-budget-ms`, `grpc-timeout`, its key) becomes "
    "one deadline, and no wait for anything outlives it by more than 50 ms.",
    (
        guard(
            "the wait for the answer", "D1.answer-wait",
            _DISPATCH + "test_a_call_to_an_endpoint_that_hangs_ends_at_its_deadline",
        ),
        guard(
            "before it leaves, when it is on record", "D1.durable-record",
            "unit/test_before_dispatch.py::"
            "test_a_record_that_is_durable_when_the_budget_ends_sends_nothing",
        ),
        guard(
            "the wait for the next frame", "D1.frame-wait",
            _DISPATCH + "test_a_stream_that_outlives_its_budget_ends_with_the_deadline",
        ),
        guard(
            "the wait in the queue", "D1.queue-wait",
            _GROUP + "test_a_wait_ends_with_its_deadline_whatever_is_decided",
        ),
        guard(
            "the look for personal data", "D1.scan-wait",
            _DOOR + "test_a_look_that_never_ends_takes_no_longer_than_the_budget",
        ),
        guard(
            "the wait for an endpoint to close", "D1.close-wait",
            _DOOR + "test_an_upstream_that_is_slow_to_close_keeps_no_caller",
        ),
        guard(
            "the wait for a server that is about to be back", "D1.recovery-wait",
            _RECOVERY + "test_a_wait_in_vain_ends_while_the_caller_can_still_be_told",
        ),
        guard(
            "a body that trickles in", "D1.body-wait",
            _FRONT + "test_a_body_that_trickles_costs_the_budget",
        ),
        guard(
            "gRPC's own bound on the pipeline", "D1.pipeline-bound",
            "unit/fronts/test_grpc_front.py::"
            "test_a_pipeline_that_hangs_does_not_outlive_the_deadline",
        ),
        guard(
            "the tightest of what is stated counts", "D1.tightest-budget",
            "unit/fronts/test_grpc_front.py::test_the_tightest_budget_wins",
        ),
        guard(
            "also where gRPC states it", "D1.grpc-budget",
            "unit/fronts/test_grpc_front.py::test_the_tightest_budget_wins",
        ),
    ),
    also=("scenarios/test_lifecycle.py::test_a_budget_that_runs_out_mid_stream_ends_it_in_band",),
)  # fmt: skip

D2 = Behaviour(
    "D2",
    "A budget that makes no sense (nothing, negative, not a number, over the maximum) is the "
    "caller's error: 400 or INVALID_ARGUMENT, and never first in the queue.",
    (
        guard(
            "zero, negative and infinite", "D2.positive-finite",
            _HEADERS + "test_a_header_that_makes_no_sense_is_refused",
            _HEADERS + "test_a_v2_parameter_that_makes_no_sense_is_refused",
        ),
        guard(
            "over the maximum", "D2.maximum",
            _HEADERS + "test_a_header_that_makes_no_sense_is_refused",
            _HEADERS + "test_a_v2_parameter_that_makes_no_sense_is_refused",
        ),
        guard(
            "what overflows", "D2.overflow",
            _HEADERS + "test_a_v2_parameter_that_makes_no_sense_is_refused",
        ),
        guard(
            "what only Python takes for a number", "D2.number-syntax",
            _HEADERS + "test_a_header_that_makes_no_sense_is_refused",
        ),
        guard(
            "true is no number", "D2.boolean",
            _HEADERS + "test_a_v2_parameter_that_makes_no_sense_is_refused",
        ),
    ),
    also=(
        "scenarios/test_budget_headers.py::test_a_budget_that_makes_no_sense_is_refused",
        "scenarios/test_budget_headers.py::test_a_v2_timeout_that_makes_no_sense_is_refused",
    ),
)  # fmt: skip

D3 = Behaviour(
    "D3",
    "The endpoint is told what is left of the budget, and a call that expires or whose caller "
    "leaves is cancelled there within 100 ms.",
    (
        guard(
            "`grpc-timeout`", "D3.grpc-timeout",
            _GRPC + "test_triton_gets_the_remaining_time_twice",
        ),
        guard(
            "who does not answer in time is not waited for", "D3.late-reset",
            "unit/http2/test_client.py::test_a_call_that_is_given_up_is_reset_at_once",
        ),
        guard(
            "Triton's parameter `timeout`", "D3.triton-timeout",
            _GRPC + "test_triton_gets_the_remaining_time_twice",
        ),
        guard(
            "the same over REST", "D3.rest-timeout",
            "unit/backends/test_rest_server.py::"
            "test_a_server_that_understands_it_is_told_what_is_left",
        ),
        guard(
            "closing a stream cancels it", "D3.stream-cancel",
            _GRPC + "test_closing_a_stream_cancels_it_upstream_at_once",
        ),
        guard(
            "an HTTP caller who leaves", "D3.http-disconnect",
            _FRONT + "test_a_caller_that_leaves_cancels_its_call",
            _FRONT + "test_a_stream_is_closed_when_its_caller_leaves",
        ),
    ),
    also=(
        _GRPC + "test_a_passed_deadline_ends_a_hung_call_and_reaches_the_server",
        _GRPC + "test_cancelling_the_open_cancels_it_upstream_at_once",
        "scenarios/test_grpc_surface.py::"
        "test_a_call_whose_deadline_passes_is_cancelled_in_the_model",
        "scenarios/test_grpc_surface.py::"
        "test_a_call_that_its_caller_cancels_is_cancelled_in_the_model",
    ),
)  # fmt: skip

D4 = Behaviour(
    "D4",
    "A clear call that on-prem cannot answer in time, and the cloud can, leaves before it is sent "
    "to any server (`spill_deadline`). A restricted one waits, the tightest deadline first, or is "
    "refused as soon as it is late for certain (`deadline_unmeetable`).",
    (
        guard(
            "who would be late leaves at once", "D4.late-spill",
            _BURSTS + "test_who_would_be_late_leaves_before_it_is_sent",
            _GROUP + "test_a_clear_call_that_would_be_late_is_sent_away_at_once",
            _LINE + "test_when_one_would_be_late_the_one_worth_least_leaves_at_once",
        ),
        guard(
            "with its reason", "D4.spill-reason",
            _BURSTS + "test_who_would_be_late_leaves_before_it_is_sent",
            _GROUP + "test_a_clear_call_that_would_be_late_is_sent_away_at_once",
        ),
        guard(
            "only to a cloud that would make it", "D4.cloud-feasible",
            _LINE + "test_a_call_that_the_cloud_could_not_make_any_more_does_not_leave",
        ),
        guard(
            "only a call that may leave", "D4.leave-permission",
            _LINE + "test_only_a_call_that_may_leave_leaves",
        ),
        guard(
            "a restricted call may not", "D4.restricted-stays",
            "unit/test_groups.py::"
            "test_a_restricted_call_never_leaves_whatever_clouds_there_are",
        ),
        guard(
            "who is late for certain is refused at once", "D4.early-refusal",
            _GROUP
            + "test_a_call_that_is_provably_late_is_told_at_once_and_when_there_will_be_room",
            _LINE + "test_a_call_is_refused_when_it_is_provably_late_and_not_before",
        ),
    ),
    also=(
        "scenarios/test_lifecycle.py::"
        "test_a_burst_of_clear_calls_spills_and_restricted_ones_wait",
    ),
)  # fmt: skip

D5 = Behaviour(
    "D5",
    "Another attempt starts only where it can finish, by the median time of its endpoint, and all "
    "attempts of a call share its one deadline.",
    (
        guard(
            "a wait for the cloud ends while there is time to be served", "D5.cloud-wait",
            "unit/test_clouds.py::"
            "test_a_place_that_does_not_come_in_time_is_a_refusal_before_the_deadline",
        ),
        guard(
            "another attempt can finish", "D5.retry-time",
            _DISPATCH + "test_no_attempt_starts_that_cannot_finish",
            _DISPATCH + "test_no_attempt_in_the_cloud_starts_that_cannot_finish",
        ),
        guard(
            "on the premises", "D5.premises-retry",
            _DISPATCH + "test_no_attempt_starts_that_cannot_finish",
            _DISPATCH + "test_another_attempt_waits_for_a_server_that_can_finish_"
            "and_takes_none_that_cannot",
        ),
        guard(
            "in the cloud", "D5.cloud-retry",
            _DISPATCH + "test_no_attempt_in_the_cloud_starts_that_cannot_finish",
        ),
        guard(
            "beside another", "D5.hedge-time",
            _HEDGE + "test_a_place_that_cannot_finish_in_time_is_no_second_try",
        ),
        guard(
            "after a wait for a server to be back", "D5.recovery-time",
            _RECOVERY + "test_else_it_is_refused_at_once_and_told_when_to_come_back",
        ),
        guard(
            "attempts share the deadline", "D5.shared-deadline",
            _DISPATCH + "test_attempts_share_the_one_deadline",
        ),
    ),
)  # fmt: skip

D6 = Behaviour(
    "D6",
    "Where little has been seen the gateway is careful: an endpoint that nobody knows counts with "
    "what the settings expect, neither best nor excluded, and nothing is concluded from old "
    "figures. No call is sent anywhere only to find out. What a caller's budget cut short would "
    "have taken longer: that counts until an answer says how long.",
    (
        guard(
            "what the settings expect", "D6.expected-time",
            "unit/test_estimate.py::test_before_the_first_observation_the_expectation_counts",
            "unit/test_snapshot.py::test_an_unknown_endpoint_costs_what_the_settings_expect",
        ),
        guard(
            "old figures prove nothing", "D6.stale-estimate",
            "unit/test_estimate.py::"
            "test_what_was_not_seen_again_for_half_a_minute_proves_nothing_but_still_ranks",
        ),
        guard(
            "nobody is refused by few or old figures", "D6.refusal-sample",
            "unit/test_snapshot.py::test_a_slow_spell_does_not_have_restricted_calls_refused_for_ever",
        ),
        guard(
            "no second try beside a first of unknown times", "D6.hedge-estimate",
            _HEDGE + "test_without_figures_nobody_is_late",
        ),
        guard(
            "more patience while times are unknown", "D6.unknown-patience",
            "unit/health/test_lane.py::"
            "test_nothing_is_concluded_soon_while_service_times_are_unknown",
            "unit/health/test_tries.py::"
            "test_a_try_is_given_up_long_before_a_far_deadline_and_the_call_goes_elsewhere",
        ),
        guard(
            "slow is told from a sufficient sample", "D6.slow-sample",
            "unit/health/test_lane.py::"
            "test_slow_is_many_times_the_usual_of_a_sufficient_sample",
        ),
        guard(
            "what was cut teaches that it lasts longer", "D6.cut-estimate",
            _SLOWER + "test_restricted_calls_are_served_as_far_as_it_goes_others_told_early",
            _SLOWER + "test_clear_calls_leave_in_time",
        ),
        guard(
            "until one is answered", "D6.cut-batch",
            _SLOWER + "test_a_batch_that_was_cut_lasts_longer_than_it_had_lasted",
        ),
        guard(
            "and for a second at the most", "D6.cut-certainty",
            _SLOWER + "test_what_was_cut_is_certain_for_a_second",
        ),
    ),
    also=("unit/scheduling/test_latency.py::test_until_something_was_seen_the_expectation_stands",),
)  # fmt: skip

DEADLINES = (D1, D2, D3, D4, D5, D6)
