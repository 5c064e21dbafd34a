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
            "what a call can cost is put aside", "fleet.py",
            "request.tenant, tariff.at_most(request, served)",
            "request.tenant, 0",
            "unit/test_closed_cloud.py::test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "it is bounded by what the call allows", "pricing/tariff.py",
            "    bound = found.dearest(_bound(request))\n", "    bound = Usage(500, 0)\n",
            _TARIFF + "test_what_an_answer_may_have_is_what_its_call_allows",
        ),
        guard(
            "at the door the leases count", "spill/control.py",
            "if self.leases is not None and not self.leases.has(tenant, expected):", "if False:",
            _BUDGETS + "test_what_another_process_spends_closes_the_cloud_here_too",
            _BUDGETS + "test_two_processes_share_one_budget",
        ),
        guard(
            "what is leased already is not leased again", "ledger/store.py",
            "        return left - self._leased(wanted.scope, now_s)\n", "        return left\n",
            _STORE + "test_two_processes_never_hold_more_than_the_budget_together",
        ),
        guard(
            "nor is what is spent", "ledger/store.py",
            "        left = self._spent(wanted.scope, now_s).left(wanted.limits)\n",
            "        left = Spent().left(wanted.limits)\n",
            _STORE + "test_no_more_is_leased_than_a_budget_has",
        ),
        guard(
            "what is spent comes out of the lease", "ledger/store.py",
            "            self._lower_leases(spent)\n", "",
            _STORE + "test_what_is_spent_comes_out_of_the_lease",
        ),
        guard(
            "a lease that nobody keeps expires", "ledger/store.py",
            "FROM leases WHERE scope = ? AND expires_s >= ?",
            "FROM leases WHERE scope = ? AND expires_s >= ? - 1e9",
            _STORE + "test_a_lease_that_nobody_keeps_expires",
        ),
        guard(
            "those of processes that are gone are dropped at the start", "ledger/ledger.py",
            "        await self._run(lambda: self._store.drop_leases(gone))\n", "",
            _BUDGETS + "test_nothing_that_was_committed_is_lost_by_kills",
        ),
        guard(
            "who leaves while it waits for a lease holds nothing", "ledger/leases.py",
            "            if its not in self._waiting:  # it has left\n                continue\n",
            "",
            "unit/ledger/test_leases.py::"
            "test_nothing_is_put_aside_for_who_left_while_the_store_was_asked",
        ),
        guard(
            "a budget has a day, a month and a total", "spill/budget.py",
            "stated = (limits.day, limits.month, limits.total)",
            "stated = (limits.day, None, None)",
            _VIEW + "test_a_budget_is_for_its_stretch_of_time",
        ),
        guard(
            "a restart knows what was spent", "ledger/ledger.py",
            "        self._view.restore(already)\n", "",
            _BUDGETS + "test_a_restart_knows_what_was_spent",
        ),
        guard(
            "decisions are told what other processes spend", "ledger/ledger.py",
            "            self._view.others_spent(tenant, nano_usd)\n", "            pass\n",
            _BUDGETS + "test_what_another_process_spends_closes_the_cloud_here_too",
        ),
        guard(
            "a place for one row is no room", "ledger/ledger.py",
            "            if self.leases.down:  # which nothing may have been written since\n"
            "                await self._run(self._store.check_room)\n", "",
            _BUDGETS + "test_a_disk_with_room_for_little_keeps_the_cloud_closed",
        ),
        guard(
            "while the ledger cannot be written nothing leaves", "spill/control.py",
            "if self.leases is not None and self.leases.down:", "if False:",
            _BUDGETS + "test_while_the_disk_is_full_nothing_leaves_and_nothing_is_lost",
        ),
        guard(
            "a database that does not answer is given up", "ledger/watchdog.py",
            "                    self._socket.shutdown(socket.SHUT_RDWR)\n",
            "                    pass\n",
            "unit/ledger/test_frozen_postgres.py::"
            "test_a_watchdog_ends_an_overdue_operation_and_no_other",
        ),
        guard(
            "no call waits longer for a lease than the settings say", "spill/control.py",
            "min(self._lease_wait_s, deadline.remaining_s())", "deadline.remaining_s()",
            "unit/ledger/test_frozen_postgres.py::"
            "test_a_call_waits_no_longer_for_a_lease_than_the_settings_say",
        ),
        guard(
            "an answer that is late for one call is there for the next", "ledger/leases.py",
            "await asyncio.shield(self._question())", "await self._question()",
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
            "an unknown price is the dearest", "catalog.py",
            "assumed_usd_per_1k_tokens=0.0 if s.priced or not away else unknown,",
            "assumed_usd_per_1k_tokens=0.0 * unknown,",
            _SETTINGS + "test_a_cloud_model_is_never_free_by_omission",
        ),
        guard(
            "a price for one way alone is refused", "config/models.py",
            "        if (given is None) is not (written is None):\n", "        if False:\n",
            _SETTINGS + "test_a_price_for_one_way_alone_is_refused",
        ),
        guard(
            "the time of the server is paid for", "pricing/tariff.py",
            "nano_usd + found.of_gpu(share_ns)", "nano_usd",
            _TARIFF + "test_on_the_premises_the_servers_time_is_paid_for",
            _ATTEMPTS + "test_on_the_premises_a_call_costs_its_share_of_the_servers_time",
        ),
        guard(
            "also by models that the file does not name", "catalog.py",
            "ServedModel(name, gpu_usd_per_hour=hour_usd)", "ServedModel(name)",
            _SETTINGS + "test_a_model_that_the_file_does_not_name_is_not_free_either",
        ),
        guard(
            "calls that are there together share it", "pricing/gputime.py",
            " * _NS / self._sharing", " * _NS",
            _TIME + "test_the_shares_add_up_to_the_time_in_which_there_were_calls",
            _ATTEMPTS + "test_calls_that_are_there_together_share_what_it_takes",
        ),
        guard(
            "a part of a nano-dollar counts as one", "pricing/tariff.py",
            "self.call - (-tokens // _MILLION)", "self.call + tokens // _MILLION",
            _TARIFF + "test_a_call_in_the_cloud",
        ),
        guard(
            "a closed cloud closes nothing else", "fleet.py",
            "            why = refused_why(place, lane, request.tenant)\n"
            "            if way.onprem:\n",
            "            why = refused_why(place, lane, request.tenant)"
            " or self._spill.closed(request.tenant)\n"
            "            if way.onprem:\n",
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
            "every attempt is entered", "accounting/account.py",
            "        if accounts.ledger is None:\n            return\n", "        return\n",
            _ATTEMPTS + "test_both_of_two_tries_are_paid_for",
        ),
        guard(
            "with what it cost, whether it was answered or not", "attempt.py",
            "        if self.epoch is not None:\n            usage",
            "        if self.epoch is not None and self.answered:\n            usage",
            _ATTEMPTS + "test_an_attempt_in_the_cloud_is_paid_for_where_it_may_have_been_served",
            _ATTEMPTS + "test_who_leaves_in_the_middle_has_used_the_cloud",
        ),
        guard(
            "what was not served costs nothing", "attempt.py",
            "            elif told is not None or not unserved:\n", "            else:\n",
            _ATTEMPTS + "test_what_was_not_served_costs_nothing_and_closes_no_budget",
        ),
        guard(
            "an answer that never began counts as a whole one", "pricing/tariff.py",
            "(_so_far(bound, frames) if frames else found.dearest(bound))",
            "_so_far(bound, frames)",
            _TARIFF + "test_of_an_answer_that_never_began_all_counts",
        ),
        guard(
            "a group that is sent again counts once", "ledger/store.py",
            "            if self._last_batch() >= number:\n                return spent\n", "",
            _STORE + "test_a_group_that_is_sent_again_counts_once",
        ),
        guard(
            "the days' sums are written with the entries", "ledger/store.py",
            "            database.write_many(_ADD_TO_DAY, _days(groups))\n", "",
            _STORE + "test_what_was_committed_is_there_after_a_restart",
            _REPORT + "test_by_whatever_it_is_grouped_it_adds_up",
        ),
        guard(
            "what could not be written is kept until it can", "ledger/ledger.py",
            "                batch, number = self._batch, self._number\n",
            "                batch, number, self._batch = self._batch, self._number, ()\n",
            _BUDGETS + "test_while_the_disk_is_full_nothing_leaves_and_nothing_is_lost",
        ),
        guard(
            "what is posted last is written at the end", "ledger/ledger.py",
            "        try:\n            await self.flush()\n            async with self.leases",
            "        try:\n            async with self.leases",
            _BUDGETS + "test_a_restart_knows_what_was_spent",
        ),
        guard(
            "a damaged ledger is not written to", "ledger/sqlite.py",
            '        if found != "ok":\n            raise _damaged(path, found)\n', "",
            _STORE + "test_a_damaged_file_is_refused_with_what_to_do",
        ),
    ),
    also=(
        _BUDGETS + "test_nothing_that_was_committed_is_lost_by_kills",
        "simulation/test_seeds.py::test_no_world_breaks_a_rule",
    ),
)  # fmt: skip

COSTS = (B1, B2, B3)
