"""Metrics, traces and logs: that they are bounded, tell the truth, and never what was said."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_SERIES = "unit/test_series.py::"
_FOLDING = "unit/test_folding.py::"
_TRACING = "unit/test_tracing.py::"
_OTLP = "unit/otlp/test_collector.py::"
_LOGS = "unit/test_logs.py::"
_EGRESS = "unit/test_egress.py::"

T1 = Behaviour(
    "T1",
    "No metric grows without end: a label keeps 1,000 values and the rest counts as `other`, "
    "whatever the names of tenants and models are.",
    (
        guard(
            "so many values and no more", "T1.label-values",
            _SERIES + "test_a_label_has_a_thousand_values_and_the_rest_is_other_with_nothing_lost",
            _SERIES + "test_every_kind_has_the_cap",
            _FOLDING + "test_nothing_of_a_server_grows_without_end",
        ),
        guard(
            "none longer than a name", "T1.label-length",
            _SERIES + "test_a_name_of_any_length_is_no_series",
        ),
        guard(
            "what is over the cap is not remembered", "T1.overflow-memory",
            _SERIES + "test_what_came_late_is_not_remembered_by_name",
        ),
        guard(
            "a registry takes only what has a cap", "T1.capped-registry",
            _SERIES + "test_a_registry_takes_nothing_without_a_cap",
        ),
    ),
    also=(_SERIES + "test_all_metrics_of_the_gateway_are_bounded",),
)  # fmt: skip

T2 = Behaviour(
    "T2",
    "Figures of a Triton server are shown while they are fresh, and never after; its own words are "
    "not passed on.",
    (
        guard(
            "figures that are old are left out", "T2.stale-series",
            _FOLDING + "test_what_is_old_is_stale_and_has_no_series",
            _FOLDING + "test_a_server_that_was_never_read_is_stale",
        ),
        guard(
            "those under one name are added up, not told twice", "T2.summed-series",
            _FOLDING + "test_nothing_of_a_server_grows_without_end",
        ),
        guard(
            "a server that tells too much is not read", "T2.exposition-size",
            _FOLDING + "test_a_server_that_tells_nothing_useful_is_stale_and_no_bug",
        ),
    ),
    also=(
        _FOLDING
        + "test_the_real_tritons_figures_are_in_the_metrics_of_a_running_gateway",
    ),
)  # fmt: skip

T3 = Behaviour(
    "T3",
    "A trace says what happened in a closed set of words; no call waits for who collects it, and "
    "the cloud sees neither a caller's trace nor its state.",
    (
        guard(
            "a text is no value of an attribute", "T3.text-attribute",
            _TRACING + "test_a_text_is_no_value",
        ),
        guard(
            "an error is told by its type", "T3.error-type",
            _TRACING + "test_a_stage_that_fails_says_of_what_kind_and_no_more",
        ),
        guard(
            "so many traces wait and no more", "T3.trace-queue",
            _OTLP + "test_without_a_collector_so_many_wait_and_the_rest_is_dropped",
        ),
        guard(
            "what a collector could not take is sent again", "T3.collector-retry",
            _OTLP + "test_a_collector_that_is_full_gets_the_same_traces_later",
        ),
        guard(
            "a caller's tracestate does not leave", "T3.tracestate",
            _EGRESS + "test_a_callers_tracestate_does_not_leave",
        ),
    ),
    also=(
        "scenarios/test_tracing.py::test_the_cloud_sees_no_trace_of_a_caller",
        "scenarios/test_tracing.py::test_a_gateway_whose_collector_is_out_serves_all_the_same",
    ),
)  # fmt: skip

T4 = Behaviour(
    "T4",
    "What a caller says is nowhere but in what goes to its endpoint and back to it: in no log at "
    "any level, metric, trace, record, error, file or core dump (C12).",
    (
        guard(
            "an argument of a log line that could be content", "T4.log-arguments",
            _LOGS + "test_what_is_no_number_name_or_code_is_not_written",
        ),
        guard(
            "libraries are quiet", "T4.library-logs",
            _LOGS + "test_libraries_that_quote_in_their_errors_are_silent",
        ),
        guard(
            "no core dumps", "T4.core-dumps",
            "unit/test_coredumps.py::test_no_process_from_there_on_can_leave_a_dump",
        ),
    ),
    also=(
        "scenarios/test_no_content.py::test_nothing_that_was_written_has_a_caller_s_words",
        "scenarios/test_no_content.py::"
        "test_no_process_with_a_call_in_its_memory_can_leave_a_core_dump",
        _LOGS + "test_every_log_line_has_settled_words_and_no_content_among_its_arguments",
    ),
)  # fmt: skip

SIGHT = (T1, T2, T3, T4)
