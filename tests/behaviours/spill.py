"""Spilling to the cloud, and the queue in front of the on-prem servers."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_LANE = "unit/health/test_lane.py::"
_GROUP = "unit/test_group.py::"
_LEAD = "unit/scheduling/test_lead.py::"
_LINE = "unit/scheduling/test_scheduler.py::"
_SHORT_WAY = "properties/test_the_short_way.py::test_the_short_way_does_what_the_decision_does"
_BURSTS = "unit/test_bursts.py::"
_SCRAPING = "unit/test_scraping.py::"
_DOOR = "unit/test_door_and_turns.py::"
_CLOSED = "unit/test_closed_cloud.py::"
_GUARDED = "unit/scheduling/test_guarded.py::"
_PRIORITIES = "unit/scheduling/test_priorities.py::"
_NEVER = "unit/test_never_leaves.py::"
_BUDGET = "unit/spill/test_budget.py::"
_PIPELINE = "unit/test_pipeline.py::"
_CALLERS = "unit/test_callers.py::"

S1 = Behaviour(
    "S1",
    "What is switched (an endpoint out, slow or back, a spill budget closed or open) does not "
    "flap: it needs more to come back than to stay, and stays as it is for a while.",
    (
        guard(
            "an ejected model stays out for a while", "S1.breaker-dwell",
            _LANE + "test_no_canary_is_due_before_the_dwell_nor_more_often_than_said",
        ),
        guard(
            "and for longer when it fails again as soon as it is back", "S1.dwell-backoff",
            _LANE + "test_what_fails_whenever_it_is_back_stays_out_for_longer_each_time",
        ),
        guard(
            "two canaries in a row bring it back", "S1.canary-streak",
            _LANE + "test_only_canaries_bring_back_what_they_can_reach",
            "unit/test_tending.py::"
            "test_a_call_waits_for_the_second_canary_once_the_first_has_passed",
        ),
        guard(
            "what was slow is back when it is as fast as it used to be", "S1.recovered-speed",
            _LANE + "test_what_was_slow_is_back_when_canaries_are_as_fast_as_it_used_to_be",
        ),
        guard(
            "a budget that ran out opens with a tenth of it free", "S1.budget-hysteresis",
            _BUDGET + "test_a_budget_that_ran_out_opens_only_when_a_tenth_is_free",
        ),
    ),
    also=(
        _LANE + "test_a_square_wave_of_failures_makes_at_most_two_transitions_a_period",
        _LANE + "test_a_square_wave_of_slowness_makes_at_most_two_transitions_a_period",
    ),
)  # fmt: skip

S2 = Behaviour(
    "S2",
    "A call counts from the moment in which it is sent: a burst between two looks at a server "
    "exceeds what the server, or the cloud, takes by not one call.",
    (
        guard(
            "calls count when they are sent", "S2.sent-count",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
        ),
        guard(
            "a batch is no larger than the room that is left", "S2.batch-room",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
            _GROUP + "test_a_server_that_starts_slowly_gets_no_more_than_it_may",
        ),
        guard(
            "a server takes what its settings say", "S2.server-limit",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
        ),
        guard(
            "the cloud is asked for room once more when a call is sent", "S2.cloud-recheck",
            _DOOR + "test_calls_that_are_at_the_door_together_overshoot_no_limit_in_the_cloud",
            _BURSTS + "test_no_burst_overshoots_what_the_cloud_takes",
        ),
        guard(
            "every spill takes one of the cloud's places", "S2.cloud-places",
            _LINE + "test_no_more_calls_leave_than_the_cloud_has_room_for",
        ),
        guard(
            "the close goes out before the next call is sent", "S2.close-order",
            _DOOR + "test_a_call_is_closed_before_the_one_that_takes_its_turn_is_sent",
        ),
    ),
    also=(
        _BURSTS + "test_a_burst_finds_a_server_with_the_running_batch_and_the_next_and_no_more",
        "unit/test_snapshot.py::test_calls_count_as_soon_as_they_are_sent",
    ),
)  # fmt: skip

S3 = Behaviour(
    "S3",
    "Statistics of a server that are old are a state of their own, `stale`: the gateway's own "
    "count of calls goes on, the server does not pass for idle, and nothing stops.",
    (
        guard(
            "old readings are stale", "S3.stale-statistics",
            _SCRAPING + "test_old_statistics_are_a_state_of_their_own_and_stop_nothing",
            "scenarios/test_healing.py::"
            "test_a_stopped_server_is_down_with_stale_statistics_until_it_goes_on",
        ),
        guard(
            "the decision is told", "S3.stale-notice",
            _SCRAPING + "test_old_statistics_are_a_state_of_their_own_and_stop_nothing",
        ),
        guard(
            "the own count goes on", "S3.own-count",
            _SCRAPING
            + "test_while_statistics_are_old_the_own_count_of_calls_says_that_it_is_not_idle",
            "unit/test_snapshot.py::test_calls_count_as_soon_as_they_are_sent",
        ),
        guard(
            "a reading that fails changes nothing but its age", "S3.failed-scrape",
            _SCRAPING + "test_nonsense_does_not_end_the_readings",
        ),
    ),
)  # fmt: skip

S4 = Behaviour(
    "S4",
    "Calls wait in the gateway and not in a server, which has the running batch and the next. "
    "They stand in the order of their deadlines, urgency and worth, and nobody waits for ever.",
    (
        guard(
            "a server has the running batch and the next", "S4.batch-depth",
            _LINE + "test_at_most_the_running_batch_and_the_next_are_with_a_server",
        ),
        guard(
            "the next is sent when half of the running batch is over, and no sooner",
            "S4.half-batch",
            _LEAD + "test_nothing_is_sent_before_half_of_the_running_batch_is_over",
        ),
        guard(
            "answers that are read slowly are no batch that was split", "S4.batch-gap",
            _LEAD + "test_two_batches_are_told_by_one_gap_and_not_by_how_long_all_answers_take",
        ),
        guard(
            "a call that meets nobody is decided on too: whether it would be in time",
            "S4.express-deadline",
            _SHORT_WAY,
        ),
        guard(
            "whether another model of its GPU has the turn", "S4.express-turn",
            _SHORT_WAY,
        ),
        guard(
            "and whether a batch that is sent ahead stands before it", "S4.express-ahead",
            _SHORT_WAY,
        ),
        guard(
            "the tightest deadline goes first", "S4.deadline-order",
            _LINE + "test_the_tightest_deadline_goes_first_whoever_came_first",
            _GROUP + "test_the_tightest_deadline_goes_first_whoever_came_first",
        ),
        guard(
            "of equals the first to come goes first", "S4.arrival-order",
            _GROUP + "test_among_equals_the_first_to_come_goes_first",
        ),
        guard(
            "a lower priority stands further back", "S4.priority-order",
            _GROUP + "test_a_less_urgent_call_stands_behind_others_of_its_deadline",
        ),
        guard(
            "the priority of a request reaches the queue", "S4.queue-priority",
            "unit/test_groups.py::test_a_missed_budget_costs_more_of_restricted_calls_"
            "and_less_of_later_priorities",
        ),
        guard(
            "where not all can be served in time the least worthy gives way", "S4.least-worth",
            _LINE + "test_when_one_would_be_late_the_one_worth_least_leaves_at_once",
        ),
        guard(
            "worth is reckoned per second of GPU", "S4.worth-rate",
            _LINE + "test_worth_is_reckoned_per_second_of_gpu",
        ),
        guard(
            "a place now and then for those who were put off", "S4.starved-share",
            _LINE + "test_the_least_worthy_progress_under_permanent_overload",
        ),
        guard(
            "who has much time is not overtaken for ever", "S4.patience-bound",
            _LINE + "test_who_has_much_time_is_not_overtaken_for_ever",
        ),
    ),
    also=("properties/test_scheduling_invariants.py::test_the_scheduler_keeps_its_promises",),
)  # fmt: skip

S5 = Behaviour(
    "S5",
    "The cloud can be closed: by a file (the kill switch), by the settings, and by the money that "
    "it may cost in a day, of all tenants and of each. Then clear calls wait or are refused.",
    (
        guard(
            "the file stops what leaves", "S5.kill-file",
            _BUDGET + "test_the_door_says_why_it_is_closed",
            _CLOSED + "test_the_switch_also_stops_calls_that_were_decided_on_and_not_yet_sent",
        ),
        guard(
            "a file that cannot be looked at counts as there", "S5.unreadable-file",
            "unit/spill/test_stop.py::test_what_cannot_be_looked_at_is_taken_to_be_there",
        ),
        guard(
            "`routing.spill: false`", "S5.spill-switch",
            "unit/test_policy.py::test_the_kill_switch_keeps_every_call_in",
        ),
        guard(
            "`routing.policy: onprem_only`", "S5.onprem-policy",
            _NEVER + "test_an_overloaded_or_failing_server_sends_nothing_away",
            _NEVER + "test_which_settings_close_the_cloud",
        ),
        guard(
            "no zone to leave to", "S5.no-zone",
            _NEVER + "test_the_decision_has_no_zone_to_leave_to",
        ),
        guard(
            "settings that close it hold for calls under way", "S5.live-settings",
            _NEVER + "test_settings_that_close_the_cloud_hold_for_calls_under_way",
        ),
        guard(
            "a reload closes the door", "S5.reload-door",
            "scenarios/test_reload.py::test_the_door_closes_for_calls_of_the_settings_before",
        ),
        guard(
            "money is put aside before it is spent", "S5.spend-reserve",
            _BUDGET + "test_no_24_hours_cost_more_than_the_budget",
        ),
        guard(
            "calls under way count", "S5.inflight-spend",
            _BUDGET + "test_calls_under_way_count_with_what_they_are_expected_to_cost",
            _CLOSED + "test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "each tenant has a budget of its own", "S5.tenant-budget",
            _BUDGET + "test_a_tenant_that_has_spent_its_own_closes_the_cloud_for_itself_alone",
        ),
        guard(
            "everybody's budget holds for tenants with money left", "S5.global-budget",
            _BUDGET + "test_everybodys_budget_closes_it_for_tenants_with_money_left",
        ),
        guard(
            "an attempt reserves its price", "S5.attempt-reserve",
            _CLOSED + "test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "a closed cloud is no place for the decision", "S5.cloud-closed",
            _CLOSED + "test_with_nowhere_else_to_go_a_call_is_refused_and_told_why",
        ),
    ),
)  # fmt: skip

_NEEDS = "unit/test_needs.py::"

S10 = Behaviour(
    "S10",
    "What a call asks for is honoured where it goes, or it does not go there: the same call has "
    "the same answer at any load, and nothing of it is dropped in silence.",
    (
        guard(
            "a filter", "S10.capability-filter",
            _NEEDS + "test_what_the_premises_cannot_goes_to_the_cloud_at_any_load",
            _NEEDS + "test_explain_says_it",
        ),
        guard(
            "no queue of a server that cannot", "S10.capable-queue",
            _NEEDS + "test_what_an_endpoint_lacks_by_the_settings_is_not_asked_of_it",
        ),
        guard(
            "who can go nowhere is told the field", "S10.missing-field",
            _NEEDS + "test_a_restricted_call_that_no_server_can_serve_is_told_which_field",
        ),
        guard(
            "a field that nobody knows", "S10.unknown-field",
            _NEEDS + "test_what_the_premises_cannot_goes_to_the_cloud_at_any_load",
        ),
    ),
    also=(
        _NEEDS + "test_the_answer_is_the_same_whatever_the_load",
        _NEEDS + "test_a_call_without_needs_is_refused_by_no_text_model",
    ),
)  # fmt: skip

S6 = Behaviour(
    "S6",
    "A caller can keep its call on the premises (`x-spillway-spill: never`), and so can its key "
    "and its tenant; nothing that it sends can loosen what they say.",
    (
        guard(
            "a call goes only where it may", "S6.allowed-zones",
            "unit/test_filters.py::test_a_call_goes_only_where_its_caller_and_key_allow",
            _PIPELINE + "test_a_call_that_asked_to_stay_is_never_sent_out",
        ),
        guard(
            "the header is read", "S6.zone-header",
            _CALLERS + "test_headers_tighten_and_never_loosen",
        ),
        guard(
            "the key wins over the header", "S6.key-precedence",
            _CALLERS + "test_headers_tighten_and_never_loosen",
        ),
        guard(
            "what the key says", "S6.key-zone",
            _CALLERS + "test_the_floor_of_a_key_is_the_tightest_of_what_it_says",
        ),
        guard(
            "what the tenant says", "S6.tenant-zone",
            _CALLERS + "test_a_tenant_can_keep_all_its_keys_on_the_premises",
        ),
        guard(
            "a word that is neither is refused", "S6.zone-word",
            _CALLERS + "test_a_header_that_says_neither_is_refused_and_not_ignored",
        ),
    ),
)  # fmt: skip

S7 = Behaviour(
    "S7",
    "Every answer says where it came from: zone, endpoint, reason and number of attempts, in "
    "headers over HTTP and in trailing metadata over gRPC.",
    (
        guard(
            "the number of attempts is told", "S7.attempt-count",
            "unit/fronts/test_kserve.py::test_an_answer_says_where_it_came_from",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_goes_through_the_pipeline_and_its_answer_comes_back_untouched",
        ),
        guard(
            "the zone is told", "S7.answer-zone",
            "unit/fronts/test_kserve.py::test_an_answer_says_where_it_came_from",
            "unit/fronts/test_openai_front.py::test_an_answer_is_the_endpoints_own_bytes",
        ),
        guard(
            "trailing metadata of a call", "S7.grpc-trailers",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_goes_through_the_pipeline_and_its_answer_comes_back_untouched",
        ),
        guard(
            "attempts that failed are counted", "S7.failed-attempts",
            _PIPELINE + "test_the_caller_is_told_how_many_endpoints_were_tried",
        ),
        guard(
            "another endpoint than the first choice is told as such", "S7.failover-flag",
            "unit/test_dispatch.py::test_a_failure_of_the_endpoint_fails_over",
        ),
    ),
    also=("scenarios/test_placement.py::test_grpc_says_it_in_trailing_metadata",),
)  # fmt: skip

S8 = Behaviour(
    "S8",
    "A server that has calls and executes nothing is noticed, told, and taken out when a canary "
    "does not wake it; settings of Triton that cause it are warned of.",
    (
        guard(
            "a stall is told", "S8.stall-notice",
            _SCRAPING + "test_calls_in_flight_and_no_execution_is_a_stall_that_is_told",
        ),
        guard(
            "and leads to a canary", "S8.stall-canary",
            _SCRAPING + "test_calls_in_flight_and_no_execution_is_a_stall_that_is_told",
        ),
        guard(
            "a stall that a canary does not break ejects", "S8.stall-ejection",
            _LANE + "test_a_stall_that_a_canary_does_not_break_ejects",
        ),
        guard(
            "where no canary can tell, the stall ejects", "S8.stall-fallback",
            _SCRAPING + "test_where_no_canary_can_tell_a_stall_ejects_by_itself_after_longer",
        ),
        guard(
            "a server with nothing to do is not stalled", "S8.idle-server",
            _SCRAPING + "test_a_server_that_executes_or_has_nothing_to_do_is_not_stalled",
        ),
        guard(
            "the options that cause it are found", "S8.fault-options",
            "unit/test_repository.py::"
            "test_every_option_that_wakes_the_fault_is_told_with_its_name",
        ),
    ),
    also=("scenarios/test_healing.py::test_a_model_that_executes_nothing_is_a_stall_that_is_told",),
)  # fmt: skip

S9 = Behaviour(
    "S9",
    "A scheduler that fails takes no call with it: the best simple rule goes on with its books, "
    "and after a dwell that grows with every relapse a new scheduler does.",
    (
        guard(
            "what raises is replaced", "S9.decision-errors",
            _GUARDED + "test_those_who_wait_and_those_with_a_server_are_known_to_the_rule",
        ),
        guard(
            "what decides on a call twice is, too", "S9.redecision-errors",
            _GUARDED + "test_those_who_wait_and_those_with_a_server_are_known_to_the_rule",
        ),
        guard(
            "it comes back", "S9.dwell-return",
            _GUARDED + "test_a_scheduler_that_failed_for_a_while_decides_again_with_all_calls",
        ),
        guard(
            "not before its dwell is over", "S9.dwell-wait",
            _GUARDED + "test_a_scheduler_that_failed_for_a_while_decides_again_with_all_calls",
        ),
        guard(
            "which doubles with a relapse", "S9.relapse-backoff",
            _GUARDED + "test_one_that_was_well_for_long_is_back_after_the_first_dwell",
        ),
        guard(
            "and with a failure to come back", "S9.failure-backoff",
            _GUARDED + "test_one_that_fails_again_and_again_is_tried_less_and_less",
        ),
        guard(
            "its numbers on the GPUs", "S9.gpu-numbers",
            _GUARDED + "test_it_has_the_same_numbers_on_its_gpus_as_before",
        ),
        guard(
            "what only the premises can serve goes first", "S9.premises-first",
            _PRIORITIES + "test_what_only_the_premises_can_serve_goes_first",
        ),
        guard(
            "a batch takes nobody who makes it late", "S9.batch-lateness",
            _PRIORITIES + "test_what_cannot_be_served_in_time_holds_up_nobody",
        ),
    ),
)  # fmt: skip

SPILL = (S1, S2, S3, S4, S5, S6, S7, S8, S9, S10)
