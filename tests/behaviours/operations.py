"""Settings that change, calls that are explained, and gateways that stop."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_VERSIONS = "unit/test_two_versions.py::"
_RELOADS = "properties/test_reloads.py::test_whatever_is_reloaded_whenever"
_READ = "unit/test_reloading.py::"
_LIVE = "scenarios/test_reload.py::"
_GRPC = "unit/fronts/test_grpc_front.py::"
_EXPLAIN = "properties/test_explain.py::test_what_explain_tells_is_what_is_then_done"
_CUT = (
    "unit/test_pipeline.py::test_what_is_cut_ends_with_the_reason_and_not_as_if_its_caller_had_left"
)
_DRAIN = "scenarios/test_drain.py::"

O2 = Behaviour(
    "O2",
    "Other settings are taken whole or not at all, in one step: calls under way finish under those "
    "that they came to, whose hash is in their records, and no place, limit or money is had twice.",
    (
        guard(
            "a new queue counts what that of before has at the server",
            "O2.queue-carryover",
            _VERSIONS + "test_two_versions_have_no_more_calls_with_a_server_than_one",
        ),
        guard(
            "and the cloud what it has there",
            "O2.cloud-carryover",
            _VERSIONS + "test_two_versions_have_no_more_calls_in_the_cloud_than_it_takes",
        ),
        guard(
            "a queue that would be the same is the same",
            "O2.same-queue",
            _VERSIONS + "test_a_queue_that_would_be_the_same_goes_on_with_all_who_wait_there",
        ),
        guard(
            "calls of two versions have numbers of their own",
            "O2.version-numbers",
            _RELOADS,
        ),
        guard(
            "what both have stays open",
            "O2.shared-connections",
            _VERSIONS + "test_what_both_have_is_closed_with_the_last_of_them",
            _VERSIONS + "test_a_version_that_is_given_up_before_it_serves_closes_nothing_of_others",
        ),
        guard(
            "who left the GPU is not counted there",
            "O2.gpu-departure",
            _VERSIONS + "test_models_that_come_and_go_leave_nothing_on_the_gpu",
        ),
        guard(
            "a drain of an operator outlives it",
            "O2.drain-carryover",
            _VERSIONS + "test_a_drained_endpoint_stays_drained_whatever_else_is_said_of_it",
        ),
        guard(
            "what was used of a limit stays used",
            "O2.quota-carryover",
            _VERSIONS + "test_to_change_a_quota_grants_nothing_twice",
        ),
        guard(
            "a wrong file changes nothing, by its own words or as a bug",
            "O2.bad-file",
            _READ + "test_a_file_that_is_wrong_changes_nothing_and_is_told",
        ),
        guard(
            "a file that is being written is not read",
            "O2.partial-file",
            _READ + "test_a_file_that_is_being_written_is_not_read",
        ),
        guard(
            "what needs a restart is refused",
            "O2.restart-needed",
            _READ + "test_what_needs_a_restart_is_refused_whole_and_named",
        ),
        guard(
            "nobody gets in because the keys are gone",
            "O2.keys-gone",
            _READ + "test_what_needs_a_restart_is_refused_whole_and_named",
        ),
        guard(
            "a version stays as long as it has calls",
            "O2.version-lifetime",
            _LIVE + "test_a_stream_that_is_open_ends_whole_under_the_policy_it_came_to",
        ),
        guard(
            "each message of a gRPC stream comes to the newest",
            "O2.stream-newest",
            _LIVE + "test_a_key_that_is_taken_out_is_refused_within_five_seconds",
        ),
        guard(
            "a call over gRPC comes to the newest",
            "O2.grpc-newest",
            _GRPC + "test_a_call_comes_to_the_settings_of_the_moment_when_it_is_whole",
        ),
        guard(
            "a call over HTTP comes to the newest",
            "O2.http-newest",
            _LIVE + "test_a_model_that_becomes_restricted_is_so_from_the_first_call_on",
        ),
    ),
    (
        _LIVE + "test_reloads_under_load_lose_no_call_and_no_connection",
        _LIVE + "test_a_connection_that_is_kept_alive_stays_open",
        _LIVE + "test_a_bad_file_changes_nothing_and_raises_the_metric",
        _LIVE + "test_an_endpoint_whose_zone_changes_gets_restricted_calls_only_while_it_is_on_the_"
        "premises",
        _LIVE + "test_two_hundred_reloads_leave_nothing_behind",
        _READ + "test_no_line_of_the_log_has_a_secret",
    ),
)

O3 = Behaviour(
    "O3",
    "`explain` tells the verdict and the decision that the call would meet in this moment, "
    "refusals of admission, limits, audit and queue included, and sends nothing to any endpoint.",
    (
        guard(
            "admission is asked",
            "O3.admission",
            _EXPLAIN,
        ),
        guard(
            "limits are asked",
            "O3.limits",
            _EXPLAIN,
        ),
        guard(
            "the audit is asked",
            "O3.audit",
            _EXPLAIN,
        ),
        guard(
            "the queue is asked",
            "O3.queue",
            _EXPLAIN,
        ),
        guard(
            "that it would wait is told",
            "O3.queue-wait",
            _EXPLAIN,
        ),
        guard(
            "it is read as far as it would be",
            "O3.reading-depth",
            "unit/test_clearance.py::test_explain_looks_as_far_as_the_live_decision_would",
        ),
        guard(
            "nothing of it is remembered",
            "O3.no-memory",
            "unit/test_pipeline.py::test_explain_has_the_call_read_as_one_that_is_not_served",
        ),
    ),
    (
        "unit/test_pipeline.py::test_explain_sends_nothing_and_says_what_is_then_done",
        "scenarios/test_lifecycle.py::test_explain_tells_what_then_happens_and_sends_nothing",
    ),
)

O7 = Behaviour(
    "O7",
    "SIGTERM lets nobody in any more and what runs finish, over every protocol, for `drain_s`; "
    "what is left then ends with `draining`.",
    (
        guard(
            "calls that wait are cut with a reason",
            "O7.waiting-cut",
            _CUT,
        ),
        guard(
            "streams are cut with a reason",
            "O7.stream-cut",
            _CUT,
        ),
        guard(
            "what runs has time to finish",
            "O7.drain-grace",
            _DRAIN + "test_what_runs_finishes_and_nobody_new_gets_in",
        ),
        guard(
            "and no more than that",
            "O7.grace-bound",
            _DRAIN + "test_what_does_not_finish_is_cut_and_told_why",
        ),
    ),
    (
        "unit/test_pipeline.py::test_a_stopping_gateway_takes_no_new_calls_and_finishes_the_open_ones",
        "scenarios/test_lifecycle.py::"
        "test_sigterm_lets_streams_finish_and_then_cuts_them_with_a_reason",
    ),
)

O8 = Behaviour(
    "O8",
    "The gateway is ready while any call has a place; whether restricted calls have one is told "
    "apart, on every front.",
    (
        guard(
            "a cloud that is up makes it ready",
            "O8.cloud-up",
            "unit/test_registry.py::test_the_gateway_is_ready_while_any_call_has_a_place",
        ),
        guard(
            "one that is closed does not",
            "O8.cloud-closed",
            "unit/test_registry.py::test_a_cloud_that_is_closed_makes_nobody_ready",
        ),
        guard(
            "a drained endpoint is no place",
            "O8.drained-endpoint",
            "unit/test_registry.py::test_the_gateway_is_ready_while_any_call_has_a_place",
        ),
        guard(
            "the signal of its own over HTTP",
            "O8.http-signal",
            "unit/fronts/test_ops.py::"
            "test_ready_is_one_thing_and_a_place_for_restricted_calls_another",
        ),
        guard(
            "and over gRPC",
            "O8.grpc-signal",
            "unit/fronts/test_grpc_inspection.py::test_health_follows_readiness",
        ),
    ),
    also=(
        "scenarios/test_readiness.py::test_it_is_ready_on_every_front",
        "scenarios/test_readiness.py::test_clear_calls_are_served_and_restricted_ones_refused",
    ),
)

OPERATIONS = (O2, O3, O7, O8)
