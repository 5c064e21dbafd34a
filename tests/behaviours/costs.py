"""What calls cost, and the budgets that are held against it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_STORE = "unit/ledger/test_store.py::"
_BUDGETS = "unit/ledger/test_budgets.py::"
_VIEW = "unit/spill/test_budget.py::"
_TARIFF = "unit/pricing/test_tariff.py::"
_TIME = "unit/pricing/test_gputime.py::"
_ATTEMPTS = "unit/test_attempt_costs.py::"
_SETTINGS = "unit/test_cost_settings.py::"
_REPORT = "unit/ledger/test_report.py::"

B1 = Behaviour(
    "B1",
    "Budgets are exact over every call and every process: the most that a call can cost is put "
    "aside before it is sent, and what it did cost is settled after it. While nobody can say what "
    "is left, nothing leaves.",
    (
        guard(
            "what a call can cost is put aside", "B1.cost-reserve",
            "unit/test_closed_cloud.py::test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "it is bounded by what the call allows", "B1.answer-cost",
            _TARIFF + "test_what_an_answer_may_have_is_what_its_call_allows",
        ),
        guard(
            "at the door the leases count", "B1.door-leases",
            _BUDGETS + "test_what_another_process_spends_closes_the_cloud_here_too",
            _BUDGETS + "test_two_processes_share_one_budget",
        ),
        guard(
            "what is leased already is not leased again", "B1.lease-sum",
            _STORE + "test_two_processes_never_hold_more_than_the_budget_together",
        ),
        guard(
            "nor is what is spent", "B1.spent-sum",
            _STORE + "test_no_more_is_leased_than_a_budget_has",
        ),
        guard(
            "what is spent comes out of the lease", "B1.lease-spend",
            _STORE + "test_what_is_spent_comes_out_of_the_lease",
        ),
        guard(
            "a lease that nobody keeps expires", "B1.lease-expiry",
            _STORE + "test_a_lease_that_nobody_keeps_expires",
        ),
        guard(
            "those of processes that are gone are dropped at the start", "B1.orphan-leases",
            _BUDGETS + "test_nothing_that_was_committed_is_lost_by_kills",
        ),
        guard(
            "who leaves while it waits for a lease holds nothing", "B1.departed-lease",
            "unit/ledger/test_leases.py::"
            "test_nothing_is_put_aside_for_who_left_while_the_store_was_asked",
        ),
        guard(
            "a budget has a day, a month and a total", "B1.budget-periods",
            _VIEW + "test_a_budget_is_for_its_stretch_of_time",
        ),
        guard(
            "a restart knows what was spent", "B1.restart-spend",
            _BUDGETS + "test_a_restart_knows_what_was_spent",
        ),
        guard(
            "decisions are told what other processes spend", "B1.peer-spend",
            _BUDGETS + "test_what_another_process_spends_closes_the_cloud_here_too",
        ),
        guard(
            "a place for one row is no room", "B1.ledger-room",
            _BUDGETS + "test_a_disk_with_room_for_little_keeps_the_cloud_closed",
        ),
        guard(
            "while the ledger cannot be written nothing leaves", "B1.ledger-down",
            _BUDGETS + "test_while_the_disk_is_full_nothing_leaves_and_nothing_is_lost",
        ),
        guard(
            "a database that does not answer is given up", "B1.store-watchdog",
            "unit/ledger/test_frozen_postgres.py::"
            "test_a_watchdog_ends_an_overdue_operation_and_no_other",
        ),
        guard(
            "no call waits longer for a lease than the settings say", "B1.lease-wait",
            "unit/ledger/test_frozen_postgres.py::"
            "test_a_call_waits_no_longer_for_a_lease_than_the_settings_say",
        ),
        guard(
            "an answer that is late for one call is there for the next", "B1.late-lease",
            "unit/ledger/test_frozen_postgres.py::"
            "test_an_answer_that_comes_too_late_for_one_call_is_there_for_the_next",
        ),
    ),
    also=(
        _BUDGETS + "test_of_200_calls_at_once_a_budget_for_20_admits_20",
        _BUDGETS + "test_two_processes_share_one_budget",
        "scenarios/test_ledger.py::"
        "test_a_budget_and_what_was_spent_of_it_outlive_a_killed_gateway",
    ),
)  # fmt: skip

B2 = Behaviour(
    "B2",
    "Nothing is free by omission: a cloud model without a price is counted at the dearest, an "
    "on-prem call by its share of the server's time. Budgets and their ledger hold up no call that "
    "stays.",
    (
        guard(
            "an unknown price is the dearest", "B2.unknown-price",
            _SETTINGS + "test_a_cloud_model_is_never_free_by_omission",
        ),
        guard(
            "a price for one way alone is refused", "B2.price-pair",
            _SETTINGS + "test_a_price_for_one_way_alone_is_refused",
        ),
        guard(
            "the time of the server is paid for", "B2.server-time",
            _TARIFF + "test_on_the_premises_the_servers_time_is_paid_for",
            _ATTEMPTS + "test_on_the_premises_a_call_costs_its_share_of_the_servers_time",
        ),
        guard(
            "also by models that the file does not name", "B2.unlisted-model",
            _SETTINGS + "test_a_model_that_the_file_does_not_name_is_not_free_either",
        ),
        guard(
            "calls that are there together share it", "B2.shared-time",
            _TIME + "test_the_shares_add_up_to_the_time_in_which_there_were_calls",
            _ATTEMPTS + "test_calls_that_are_there_together_share_what_it_takes",
        ),
        guard(
            "a part of a nano-dollar counts as one", "B2.round-up",
            _TARIFF + "test_a_call_in_the_cloud",
        ),
        guard(
            "a closed cloud closes nothing else", "B2.cloud-only-closure",
            _ATTEMPTS + "test_a_used_up_budget_never_blocks_the_premises",
            _ATTEMPTS + "test_while_the_ledger_is_down_all_calls_are_served_on_the_premises",
        ),
    ),
)  # fmt: skip

B3 = Behaviour(
    "B3",
    "The ledger's sums are those of all attempts, failed, hedged and cancelled ones too; what was "
    "committed is there after every end of the process.",
    (
        guard(
            "every attempt is entered", "B3.attempt-entry",
            _ATTEMPTS + "test_both_of_two_tries_are_paid_for",
        ),
        guard(
            "with what it cost, whether it was answered or not", "B3.attempt-cost",
            _ATTEMPTS + "test_an_attempt_in_the_cloud_is_paid_for_where_it_may_have_been_served",
            _ATTEMPTS + "test_who_leaves_in_the_middle_has_used_the_cloud",
        ),
        guard(
            "what was not served costs nothing", "B3.unserved-free",
            _ATTEMPTS + "test_what_was_not_served_costs_nothing_and_closes_no_budget",
        ),
        guard(
            "an answer that never began counts as a whole one", "B3.unbegun-answer",
            _TARIFF + "test_of_an_answer_that_never_began_all_counts",
        ),
        guard(
            "a group that is sent again counts once", "B3.idempotent-group",
            _STORE + "test_a_group_that_is_sent_again_counts_once",
        ),
        guard(
            "the days' sums are written with the entries", "B3.daily-sums",
            _STORE + "test_what_was_committed_is_there_after_a_restart",
            _REPORT + "test_by_whatever_it_is_grouped_it_adds_up",
        ),
        guard(
            "what could not be written is kept until it can", "B3.unwritten-entries",
            _BUDGETS + "test_while_the_disk_is_full_nothing_leaves_and_nothing_is_lost",
        ),
        guard(
            "what is posted last is written at the end", "B3.final-flush",
            _BUDGETS + "test_a_restart_knows_what_was_spent",
        ),
        guard(
            "a damaged ledger is not written to", "B3.damaged-ledger",
            _STORE + "test_a_damaged_file_is_refused_with_what_to_do",
        ),
    ),
    also=(
        _BUDGETS + "test_nothing_that_was_committed_is_lost_by_kills",
        "simulation/test_seeds.py::test_no_world_breaks_a_rule",
    ),
)  # fmt: skip

COSTS = (B1, B2, B3)
