"""Several processes of one gateway."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_STORES = "unit/limits/test_stores.py::"
_COUNTS = "unit/workers/test_counts.py::"
_MARKS = "unit/workers/test_marks.py::"
_TURNS = "unit/cluster/test_turns.py::"
_REFUSALS = "unit/workers/test_refusals.py::"
_LIVE = "scenarios/test_workers.py::"

O5 = Behaviour(
    "O5",
    "Limits, budgets, what was restricted and the queues of servers are had once by all workers of "
    "a gateway; what cannot be known of the others is taken at its worst, and without what they "
    "share several do not start.",
    (
        guard(
            "a limit is checked by what all have used",
            "O5.shared-limit",
            _STORES + "test_requests_of_all_are_counted_together",
            _COUNTS + "test_whatever_workers_do_and_die_of_no_limit_is_had_twice",
        ),
        guard(
            "and what this one uses is told to the others",
            "O5.shared-use",
            _STORES + "test_calls_at_once_are_counted_together_and_given_back",
        ),
        guard(
            "a limit that changes is not granted twice",
            "O5.limit-change",
            _STORES + "test_a_limit_that_changes_is_not_granted_twice",
        ),
        guard(
            "who is inside is counted in all",
            "O5.shared-admission",
            _STORES + "test_admission_counts_everybody_and_each_tenant",
        ),
        guard(
            "a tenant inside and its limit are counted apart",
            "O5.separate-slots",
            _COUNTS + "test_while_nobody_can_say_what_others_let_in_nobody_with_a_limit_enters",
        ),
        guard(
            "who cannot count with the others refuses",
            "O5.uncountable-refusal",
            _COUNTS + "test_while_nobody_can_say_what_others_let_in_nobody_with_a_limit_enters",
        ),
        guard(
            "what is in use is not forgotten for want of room",
            "O5.slot-eviction",
            _COUNTS + "test_more_names_than_there_is_room_for_are_refused_and_none_is_forgotten",
        ),
        guard(
            "the dead have nothing inside",
            "O5.dead-worker",
            _COUNTS + "test_what_a_dead_worker_had_inside_is_free_and_what_it_used_is_not",
        ),
        guard(
            "what one marks all find",
            "O5.shared-taint",
            _MARKS + "test_the_next_turn_is_restricted_wherever_it_comes_to",
            _MARKS + "test_a_mark_outlives_the_worker_that_made_it",
        ),
        guard(
            "under one key",
            "O5.shared-key",
            _MARKS + "test_the_next_turn_is_restricted_wherever_it_comes_to",
        ),
        guard(
            "a mark that made room fades",
            "O5.evicted-mark",
            _MARKS + "test_a_mark_that_made_room_is_known_everywhere_and_no_other_is",
        ),
        guard(
            "and so does one that cannot be written",
            "O5.unwritten-mark",
            _MARKS + "test_a_mark_that_cannot_be_written_leaves_everybody_in_doubt",
        ),
        guard(
            "only a server of the call's own group can be granted",
            "O5.own-group",
            _TURNS + "test_a_server_that_is_not_of_the_calls_own_group_is_not_gone_to",
        ),
        guard(
            "the owner cannot send a call away that may not leave",
            "O5.restricted-stays",
            _TURNS + "test_the_owner_cannot_send_away_a_call_that_may_not_leave",
        ),
        guard(
            "calls of other settings are not decided on",
            "O5.settings-match",
            _TURNS + "test_what_no_worker_with_the_same_settings_asks_is_not_decided_on",
        ),
        guard(
            "the calls of a dead worker give their turns back",
            "O5.dead-worker-turns",
            _TURNS + "test_a_call_that_was_taken_back_or_whose_worker_died_waits_no_more",
        ),
        guard(
            "several that share nothing do not start",
            "O5.unshared-workers",
            _REFUSALS + "test_several_workers_without_a_parent_do_not_start",
        ),
        guard(
            "nor with budgets that are not shared",
            "O5.unshared-budgets",
            _REFUSALS + "test_budgets_need_a_ledger_that_processes_share",
        ),
    ),
    also=(
        _LIVE + "test_a_limit_of_requests_is_that_of_all_workers",
        _LIVE + "test_a_limit_of_calls_at_once_is_that_of_all_workers",
        _LIVE + "test_a_budget_is_that_of_all_workers",
        _LIVE + "test_a_conversation_that_was_restricted_is_so_at_every_worker",
        _LIVE + "test_one_queue_decides_for_all_workers",
        _LIVE + "test_no_acknowledged_record_is_lost_with_a_killed_worker",
        _LIVE + "test_what_a_killed_worker_had_inside_is_free_again",
        _LIVE + "test_without_the_ledger_nothing_leaves_and_restricted_calls_are_served",
    ),
)

WORKERS = (O5,)
