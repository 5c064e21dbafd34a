"""The page for whoever is on call."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_DECISIONS = "unit/console/test_decisions.py::"
_OPERATORS = "unit/console/test_operators.py::"
_DRAIN = "unit/console/test_drain.py::"
_FEED = "unit/console/test_feed.py::"
_PAGE = "unit/console/test_page.py::"

P1 = Behaviour(
    "P1",
    "The number of restricted calls in the cloud is counted from what was recorded of every call, "
    "and whatever is not known to be clear counts.",
    (
        guard(
            "a call that was never read counts", "P1.unread-call",
            _DECISIONS + "test_a_call_that_is_not_clear_and_was_in_the_cloud_is_counted",
        ),
        guard(
            "and one whose record cannot be written", "P1.unrecorded-call",
            _DECISIONS + "test_an_alarm_is_raised_also_when_the_record_cannot_be_written",
        ),
        guard(
            "each counts once", "P1.count-once",
            _DECISIONS
            + "test_a_call_that_was_seen_under_way_counts_once",
        ),
    ),
    also=(
        _PAGE + "test_a_restricted_call_in_the_cloud_is_an_alarm_that_nobody_overlooks",
        "scenarios/test_console.py::"
        "test_an_outage_is_seen_as_it_happens_and_nothing_restricted_leaves",
        "scenarios/test_console.py::test_no_content_of_a_call_is_anywhere_in_the_stream",
    ),
)  # fmt: skip

P2 = Behaviour(
    "P2",
    "Only operators look at the page, and only those who may act act, from the page itself; an "
    "operator's key makes no calls, and opens nothing once it is revoked. "
    "Without any keys it is for whoever sits at this machine.",
    (
        guard(
            "connections from other machines", "P2.remote-address",
            _OPERATORS + "test_without_any_keys_the_page_is_for_whoever_sits_at_this_machine",
        ),
        guard(
            "other names for this machine", "P2.host-name",
            _OPERATORS + "test_without_any_keys_the_page_is_for_whoever_sits_at_this_machine",
        ),
        guard(
            "proxies on this machine", "P2.local-proxy",
            _OPERATORS + "test_without_any_keys_the_page_is_for_whoever_sits_at_this_machine",
        ),
        guard(
            "keys for callers do not leave the page open", "P2.caller-keys-only",
            _OPERATORS
            + "test_where_callers_have_keys_nobody_looks_until_an_operator_is_named",
        ),
        guard(
            "a caller's key is no operator's", "P2.separate-keys",
            _OPERATORS + "test_an_operators_key_that_is_a_callers_is_refused_at_the_start",
        ),
        guard(
            "who only looks", "P2.viewer-role",
            _OPERATORS + "test_to_act_takes_the_right_operator_and_the_page_itself",
        ),
        guard(
            "what a form of another site can send", "P2.form-content",
            _OPERATORS + "test_to_act_takes_the_right_operator_and_the_page_itself",
        ),
        guard(
            "an operator's issued key makes no calls", "P2.operator-calls",
            _OPERATORS + "test_an_operators_key_makes_no_calls",
        ),
        guard(
            "one that is revoked sees nothing more", "P2.revoked-feed",
            "unit/console/test_front.py::test_a_stream_ends_when_its_operator_is_one_no_more",
        ),
        guard(
            "what comes from another site", "P2.cross-site",
            _OPERATORS + "test_to_act_takes_the_right_operator_and_the_page_itself",
            _OPERATORS + "test_in_development_mode_a_page_of_another_site_cannot_act_either",
        ),
    ),
    also=(
        "unit/console/test_front.py::test_without_an_operators_key_nothing_is_told",
        _PAGE + "test_it_takes_an_operators_key_and_what_it_may_shows",
    ),
)  # fmt: skip

P3 = Behaviour(
    "P3",
    "A drained endpoint gets no new calls and finishes those that it has; records say so, also of "
    "calls that had nowhere else to go.",
    (
        guard(
            "no new calls", "P3.new-calls",
            _DRAIN + "test_new_calls_go_elsewhere_and_the_decision_says_why",
            _DRAIN + "test_a_restricted_call_is_refused_and_does_not_leave_for_a_drained_server",
            _DRAIN + "test_a_drained_cloud_gets_nothing",
        ),
        guard(
            "a silent stream there is not cut", "P3.silent-stream",
            _DRAIN + "test_a_stream_that_is_silent_for_long_is_not_cut_as_it_would_be_were_"
            "its_server_down",
        ),
        guard(
            "who waits for it is told at once", "P3.waiter-refusal",
            _DRAIN + "test_who_waits_for_it_is_told_at_once",
        ),
        guard(
            "records of refused calls say what was passed over", "P3.record-drained",
            _DRAIN + "test_a_restricted_call_is_refused_and_does_not_leave_for_a_drained_server",
        ),
    ),
    also=(
        _DRAIN + "test_what_runs_there_finishes",
        "scenarios/test_console.py::test_what_operators_do_is_done_and_on_record",
        _PAGE + "test_an_endpoint_is_drained_and_taken_back_by_two_presses_each",
    ),
)  # fmt: skip

P4 = Behaviour(
    "P4",
    "Who looks costs calls nothing, and is never shown old figures as new: nothing runs while "
    "nobody looks, who does not keep up is let go, and who comes back misses nothing.",
    (
        guard(
            "who does not keep up is let go", "P4.slow-viewer",
            _FEED + "test_who_does_not_keep_up_is_let_go_and_the_others_go_on",
        ),
        guard(
            "nothing runs while nobody looks", "P4.idle-feed",
            _FEED + "test_nothing_is_looked_at_and_nothing_runs_while_nobody_looks",
        ),
        guard(
            "nobody goes on over a gap", "P4.feed-gap",
            _FEED + "test_nobody_goes_on_over_a_time_in_which_nobody_looked",
        ),
        guard(
            "nor over another run", "P4.other-run",
            _FEED + "test_who_comes_back_from_elsewhere_gets_a_picture",
        ),
        guard(
            "silence is told apart from a broken line", "P4.heartbeat",
            _FEED + "test_silence_is_told_once_a_second_so_that_it_cannot_be_taken_for_a_"
            "broken_line",
        ),
        guard(
            "streams end when the gateway stops", "P4.shutdown",
            _FEED + "test_streams_end_when_the_gateway_stops",
        ),
        guard(
            "only so many look at once", "P4.viewer-limit",
            _FEED + "test_only_so_many_look_at_once",
        ),
    ),
    also=(
        _PAGE + "test_old_figures_are_said_to_be_old_and_the_page_comes_back_by_itself",
        "scenarios/test_console.py::test_the_gateway_stops_though_somebody_looks",
    ),
)  # fmt: skip

CONSOLE = (P1, P2, P3, P4)
