"""Spilling to the cloud, and the queue in front of the on-prem servers."""

from __future__ import annotations

from tests.behaviours import Behaviour, Guard, guard
from tests.simulation.mutations import Change

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
            "an ejected model stays out for a while", "breaker.py",
            "        return self.clock() >= self.open_until_s\n", "        return True\n",
            _LANE + "test_no_canary_is_due_before_the_dwell_nor_more_often_than_said",
        ),
        guard(
            "and for longer when it fails again as soon as it is back", "breaker.py",
            "max(doubled_s, self.dwell_s) if relapsed else self.dwell_s", "self.dwell_s",
            _LANE + "test_what_fails_whenever_it_is_back_stays_out_for_longer_each_time",
        ),
        guard(
            "two canaries in a row bring it back", "health/lane.py",
            "        if self._passed < self._needed:\n", "        if False:\n",
            _LANE + "test_only_canaries_bring_back_what_they_can_reach",
            "unit/test_tending.py::"
            "test_a_call_waits_for_the_second_canary_once_the_first_has_passed",
        ),
        guard(
            "what was slow is back when it is as fast as it used to be", "health/lane.py",
            "        if slowly and self.breaker.closed and not steady:\n", "        if False:\n",
            _LANE + "test_what_was_slow_is_back_when_canaries_are_as_fast_as_it_used_to_be",
        ),
        guard(
            "a budget that ran out opens with a tenth of it free", "spill/budget.py",
            "(self.left_now if self._was_open else self._again()) > 0", "self.left_now > 0",
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
            "calls count when they are sent", "scheduling/servers.py",
            "        standing.in_flight += len(calls)\n", "",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
        ),
        guard(
            "a batch is no larger than the room that is left", "scheduling/batcher.py",
            "            most = instance.standing.room\n", "            most = 1 << 30\n",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
            _GROUP + "test_a_server_that_starts_slowly_gets_no_more_than_it_may",
        ),
        guard(
            "a server takes what its settings say", "fleet.py",
            "min(place.settings.max_in_flight, _OVERTAKEN * window)", "_OVERTAKEN * window",
            _BURSTS + "test_a_server_that_takes_fewer_never_has_one_more",
        ),
        guard(
            "the cloud is asked for room once more when a call is sent", "attempt.py",
            "        if away and not self.fleet.takes_another(",
            "        if away and self.fleet.places is None and self.fleet.takes_another(",
            _DOOR + "test_calls_that_are_at_the_door_together_overshoot_no_limit_in_the_cloud",
            _BURSTS + "test_no_burst_overshoots_what_the_cloud_takes",
        ),
        guard(
            "every spill takes one of the cloud's places", "scheduling/scheduler.py",
            "        self.cloud_room -= 1\n", "",
            _LINE + "test_no_more_calls_leave_than_the_cloud_has_room_for",
        ),
        Guard(
            "the close goes out before the next call is sent",
            (
                Change(
                    "attempt.py", "asyncio.get_running_loop().call_soon(self._leave)",
                    "self._leave()",
                ),
                Change(
                    "attempt.py",
                    "    return asyncio.ensure_future(stream.aclose())\n",
                    "    return stream.aclose()\n",
                ),
            ),
            (_DOOR + "test_a_call_is_closed_before_the_one_that_takes_its_turn_is_sent",),
        ),
    ),
    also=(
        _BURSTS + "test_a_burst_finds_a_server_with_the_running_batch_and_the_next_and_no_more",
        "unit/test_fleet.py::test_calls_count_as_soon_as_they_are_sent",
    ),
)  # fmt: skip

S3 = Behaviour(
    "S3",
    "Statistics of a server that are old are a state of their own, `stale`: the gateway's own "
    "count of calls goes on, the server does not pass for idle, and nothing stops.",
    (
        guard(
            "old readings are stale", "health/statistics.py",
            "        return self.clock() - self.read_s > _MISSED * self.period_s\n",
            "        return False\n",
            _SCRAPING + "test_old_statistics_are_a_state_of_their_own_and_stop_nothing",
            "scenarios/test_healing.py::"
            "test_a_stopped_server_is_down_with_stale_statistics_until_it_goes_on",
        ),
        guard(
            "the decision is told", "fleet.py",
            "stale=place.statistics is not None and place.statistics.stale", "stale=False",
            _SCRAPING + "test_old_statistics_are_a_state_of_their_own_and_stop_nothing",
        ),
        guard(
            "the own count goes on", "fleet.py",
            "            in_flight=lane.in_flight,\n", "            in_flight=0,\n",
            _SCRAPING
            + "test_while_statistics_are_old_the_own_count_of_calls_says_that_it_is_not_idle",
            "unit/test_fleet.py::test_calls_count_as_soon_as_they_are_sent",
        ),
        guard(
            "a reading that fails changes nothing but its age", "scraping.py",
            "        except (GatewayError, TimeoutError):\n            return\n",
            "        except (GatewayError, TimeoutError):\n            raise\n",
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
            "a server has the running batch and the next", "scheduling/servers.py",
            "(lead_s <= 0.0 or len(bursts) >= _AT_MOST)", "lead_s <= 0.0",
            _LINE + "test_at_most_the_running_batch_and_the_next_are_with_a_server",
        ),
        guard(
            "the next is sent when half of the running batch is over, and no sooner",
            "scheduling/scheduler.py",
            "work = instance.bursts[0].work if instance.bursts else self._max_batch",
            "work = self._max_batch",
            _LEAD + "test_nothing_is_sent_before_half_of_the_running_batch_is_over",
        ),
        guard(
            "answers that are read slowly are no batch that was split", "scheduling/servers.py",
            "                burst.last_end_s = now_s\n",
            "                burst.last_end_s = min(now_s, burst.last_end_s)\n",
            _LEAD + "test_two_batches_are_told_by_one_gap_and_not_by_how_long_all_answers_take",
        ),
        guard(
            "a call that meets nobody is decided on too: whether it would be in time",
            "scheduling/scheduler.py",
            "if end_s * self._stretch(now_s).few[place.density_class] > place.due_s - now_s:",
            "if False:",
            _SHORT_WAY,
        ),
        guard(
            "whether another model of its GPU has the turn", "scheduling/servers.py",
            "return not self.gpu.shared or self.gpu.clear_for(self.number)", "return True",
            _SHORT_WAY,
        ),
        guard(
            "and whether a batch that is sent ahead stands before it", "scheduling/servers.py",
            "            if ahead and standing.running:\n", "            if False:\n",
            _SHORT_WAY,
        ),
        guard(
            "the tightest deadline goes first", "scheduling/waiting.py",
            "        at = bisect_right(self._keys, place.key)\n", "        at = len(self.calls)\n",
            _LINE + "test_the_tightest_deadline_goes_first_whoever_came_first",
            _GROUP + "test_the_tightest_deadline_goes_first_whoever_came_first",
        ),
        guard(
            "of equals the first to come goes first", "scheduling/waiting.py",
            "bisect_right(self._keys, place.key)", "bisect_left(self._keys, place.key)",
            _GROUP + "test_among_equals_the_first_to_come_goes_first",
        ),
        guard(
            "a lower priority stands further back", "scheduling/scheduler.py",
            "t.patience_s) + call.later_s", "t.patience_s)",
            _GROUP + "test_a_less_urgent_call_stands_behind_others_of_its_deadline",
        ),
        guard(
            "the priority of a request reaches the queue", "groups.py",
            "later_s=request.priority * weights.aging_s", "later_s=0.0",
            "unit/test_groups.py::test_a_missed_budget_costs_more_of_restricted_calls_"
            "and_less_of_later_priorities",
        ),
        guard(
            "where not all can be served in time the least worthy gives way",
            "scheduling/waiting.py",
            "            if density < least:\n", "            if at == 0:\n",
            _LINE + "test_when_one_would_be_late_the_one_worth_least_leaves_at_once",
        ),
        guard(
            "worth is reckoned per second of GPU", "scheduling/waiting.py",
            "density = worth / (fixed_s + per_work_s * self._work[at])", "density = worth",
            _LINE + "test_worth_is_reckoned_per_second_of_gpu",
        ),
        guard(
            "a place now and then for those who were put off", "scheduling/batcher.py",
            "owed = self._starved + len(calls) * self._tuning.starved_share",
            "owed = self._starved",
            _LINE + "test_the_least_worthy_progress_under_permanent_overload",
        ),
        guard(
            "who has much time is not overtaken for ever", "scheduling/scheduler.py",
            "min(due_s, call.arrived_s + t.patience_s)", "due_s",
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
            "the file stops what leaves", "spill/control.py",
            "        if self._stop.file is not None and self._stop.on:\n", "        if False:\n",
            _BUDGET + "test_the_door_says_why_it_is_closed",
            _CLOSED + "test_the_switch_also_stops_calls_that_were_decided_on_and_not_yet_sent",
        ),
        guard(
            "a file that cannot be looked at counts as there", "spill/stop.py",
            "    except OSError:\n        return True\n",
            "    except OSError:\n        return False\n",
            "unit/spill/test_stop.py::test_what_cannot_be_looked_at_is_taken_to_be_there",
        ),
        guard(
            "`routing.spill: false`", "routing/policy.py",
            "if why is None and not self.spill and", "if False and",
            "unit/test_policy.py::test_the_kill_switch_keeps_every_call_in",
        ),
        guard(
            "`routing.policy: onprem_only`", "config/routing.py",
            'return not self.spill or self.policy == "onprem_only"', "return not self.spill",
            _NEVER + "test_an_overloaded_or_failing_server_sends_nothing_away",
            _NEVER + "test_which_settings_close_the_cloud",
        ),
        guard(
            "no zone to leave to", "routing/policy.py",
            "if found.restricted or not self.spill else", "if found.restricted else",
            _NEVER + "test_the_decision_has_no_zone_to_leave_to",
        ),
        guard(
            "settings that close it hold for calls under way", "spill/control.py",
            'why = self._stopped() if self._allowed else "spill_off"', "why = self._stopped()",
            _NEVER + "test_settings_that_close_the_cloud_hold_for_calls_under_way",
        ),
        guard(
            "a reload closes the door", "core.py",
            "            not settings.routing.closes_cloud,\n", "",
            "scenarios/test_reload.py::test_the_door_closes_for_calls_of_the_settings_before",
        ),
        guard(
            "money is put aside before it is spent", "spill/budget.py",
            "return self.opens(now_s) and nano_usd <= self.left_now", "return self.opens(now_s)",
            _BUDGET + "test_no_24_hours_cost_more_than_the_budget",
        ),
        guard(
            "calls under way count", "spill/budget.py",
            "            budget.left_now -= expected\n", "",
            _BUDGET + "test_calls_under_way_count_with_what_they_are_expected_to_cost",
            _CLOSED + "test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "each tenant has a budget of its own", "spill/budget.py",
            "tenant: (self._everybody, own)", "tenant: (self._everybody,)",
            _BUDGET + "test_a_tenant_that_has_spent_its_own_closes_the_cloud_for_itself_alone",
        ),
        guard(
            "everybody's budget holds for tenants with money left", "spill/budget.py",
            "tenant: (self._everybody, own)", "tenant: (own,)",
            _BUDGET + "test_everybodys_budget_closes_it_for_tenants_with_money_left",
        ),
        guard(
            "an attempt reserves its price", "attempt.py",
            "                self.reserved = fleet.reserve(request, self.served)\n"
            "                if not self.reserved.leased:\n"
            "                    await fleet.lease(self.reserved, request.deadline)\n",
            "",
            _CLOSED + "test_a_burst_cannot_overshoot_the_budget",
        ),
        guard(
            "a closed cloud is no place for the decision", "fleet.py",
            "                why = why or closed\n", "                pass\n",
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
            "a filter", "routing/filters.py",
            '        return "capability"\n', "        pass\n",
            _NEEDS + "test_what_the_premises_cannot_goes_to_the_cloud_at_any_load",
            _NEEDS + "test_explain_says_it",
        ),
        guard(
            "no queue of a server that cannot", "routing/fit.py",
            " and lacking(request, endpoint, served) is None", "",
            _NEEDS + "test_what_an_endpoint_lacks_by_the_settings_is_not_asked_of_it",
        ),
        guard(
            "no decision of calls that need less", "fleet.py",
            "        if standing is not None and alike:\n", "        if standing is not None:\n",
            _NEEDS + "test_the_answer_is_the_same_whatever_the_load",
        ),
        guard(
            "who can go nowhere is told the field", "routing/policy.py",
            "                    return _incapable(need)\n", "                    pass\n",
            _NEEDS + "test_a_restricted_call_that_no_server_can_serve_is_told_which_field",
        ),
        guard(
            "a field that nobody knows", "routing/needs.py",
            '                yield Need("other", key)\n', "                pass\n",
            _NEEDS + "test_what_the_premises_cannot_goes_to_the_cloud_at_any_load",
        ),
    ),
    also=(_NEEDS + "test_a_call_without_needs_is_refused_by_no_text_model",),
)  # fmt: skip

S6 = Behaviour(
    "S6",
    "A caller can keep its call on the premises (`x-spillway-spill: never`), and so can its key "
    "and its tenant; nothing that it sends can loosen what they say.",
    (
        guard(
            "a call goes only where it may", "routing/filters.py",
            '        return "placement"\n', "        pass\n",
            "unit/test_filters.py::test_a_call_goes_only_where_its_caller_and_key_allow",
            _PIPELINE + "test_a_call_that_asked_to_stay_is_never_sent_out",
        ),
        guard(
            "the header is read", "fronts/intake.py",
            ' or spill == "never" else', " else",
            _CALLERS + "test_headers_tighten_and_never_loosen",
        ),
        guard(
            "the key wins over the header", "fronts/intake.py",
            "zones = caller.zones & _zones(headers)", "zones = _zones(headers)",
            _CALLERS + "test_headers_tighten_and_never_loosen",
        ),
        guard(
            "what the key says", "callers/caller.py",
            'scope.placement == "onprem" or scope.spill is Spill.NEVER',
            'scope.placement == "onprem"',
            _CALLERS + "test_the_floor_of_a_key_is_the_tightest_of_what_it_says",
        ),
        guard(
            "what the tenant says", "callers/caller.py",
            'stays = stays or floor.placement == "onprem"', "pass",
            _CALLERS + "test_a_tenant_can_keep_all_its_keys_on_the_premises",
        ),
        guard(
            "a word that is neither is refused", "fronts/intake.py",
            '    if spill not in ("never", "allow"):\n', "    if False:\n",
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
            "the number of attempts is told", "fronts/intake.py",
            "        placement.attempts,\n", "        0,\n",
            "unit/fronts/test_kserve.py::test_an_answer_says_where_it_came_from",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_goes_through_the_pipeline_and_its_answer_comes_back_untouched",
        ),
        guard(
            "the zone is told", "fronts/intake.py",
            "    told = (zone.word, endpoint", '    told = ("", endpoint',
            "unit/fronts/test_kserve.py::test_an_answer_says_where_it_came_from",
            "unit/fronts/test_openai_front.py::test_an_answer_is_the_endpoints_own_bytes",
        ),
        guard(
            "trailing metadata of a call", "fronts/grpc.py",
            "        head.context.answered_by(answered_by(head.arrival, reply.placement))\n", "",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_goes_through_the_pipeline_and_its_answer_comes_back_untouched",
        ),
        guard(
            "attempts that failed are counted", "pipeline.py",
            "attempts = len(account.attempts) + 1", "attempts = 1",
            _PIPELINE + "test_the_caller_is_told_how_many_endpoints_were_tried",
        ),
        guard(
            "another endpoint than the first choice is told as such", "pipeline.py",
            'placed.reason if not account.attempts else "failover"', "placed.reason",
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
            "a stall is told", "scraping.py",
            "        self._metrics.endpoint_stalls.labels(name).inc()\n", "",
            _SCRAPING + "test_calls_in_flight_and_no_execution_is_a_stall_that_is_told",
        ),
        guard(
            "and leads to a canary", "scraping.py",
            "lane.health.stalled = lane.breaker.closed", "lane.health.stalled = False",
            _SCRAPING + "test_calls_in_flight_and_no_execution_is_a_stall_that_is_told",
        ),
        guard(
            "a stall that a canary does not break ejects", "health/lane.py",
            "(self.stalled or self.slow_since_s is not None)", "(self.slow_since_s is not None)",
            _LANE + "test_a_stall_that_a_canary_does_not_break_ejects",
        ),
        guard(
            "where no canary can tell, the stall ejects", "scraping.py",
            "        if not lane.health.proven and lane.health.open():\n", "        if False:\n",
            _SCRAPING + "test_where_no_canary_can_tell_a_stall_ejects_by_itself_after_longer",
        ),
        guard(
            "a server with nothing to do is not stalled", "health/statistics.py",
            "if executions != self.executions or not asked:", "if executions != self.executions:",
            _SCRAPING + "test_a_server_that_executes_or_has_nothing_to_do_is_not_stalled",
        ),
        guard(
            "the options that cause it are found", "repository.py",
            "    return found\n", "    return set()\n",
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
            "what raises is replaced", "scheduling/guarded.py",
            "                actions = self._replace(exc, now_s)\n", "                raise\n",
            _GUARDED + "test_those_who_wait_and_those_with_a_server_are_known_to_the_rule",
        ),
        guard(
            "what decides on a call twice is, too", "scheduling/guarded.py",
            "return actions\n                self._check(actions)\n", "return actions\n",
            _GUARDED + "test_those_who_wait_and_those_with_a_server_are_known_to_the_rule",
        ),
        guard(
            "it comes back", "scheduling/guarded.py",
            "now_s - self._since_s >= self._dwell_s:", "False:",
            _GUARDED + "test_a_scheduler_that_failed_for_a_while_decides_again_with_all_calls",
        ),
        guard(
            "not before its dwell is over", "scheduling/guarded.py",
            "now_s - self._since_s >= self._dwell_s:", "True:",
            _GUARDED + "test_a_scheduler_that_failed_for_a_while_decides_again_with_all_calls",
        ),
        guard(
            "which doubles with a relapse", "scheduling/guarded.py",
            "        relapsed = now_s - self._since_s < RELAPSE_S\n", "        relapsed = False\n",
            _GUARDED + "test_one_that_was_well_for_long_is_back_after_the_first_dwell",
        ),
        guard(
            "and with a failure to come back", "scheduling/guarded.py",
            "            self._dwell_s = min(2 * self._dwell_s, LONGEST_DWELL_S)\n", "",
            _GUARDED + "test_one_that_fails_again_and_again_is_tried_less_and_less",
        ),
        guard(
            "its numbers on the GPUs", "scheduling/guarded.py",
            "            self._retired.leave()\n", "",
            _GUARDED + "test_it_has_the_same_numbers_on_its_gpus_as_before",
        ),
        guard(
            "what only the premises can serve goes first", "scheduling/priorities.py",
            "return _FIRST if critical else _OTHERS,", "return _OTHERS,",
            _PRIORITIES + "test_what_only_the_premises_can_serve_goes_first",
        ),
        guard(
            "a batch takes nobody who makes it late", "scheduling/priorities.py",
            "                and end_s <= min(due_s, call.deadline_s)\n", "",
            _PRIORITIES + "test_what_cannot_be_served_in_time_holds_up_nobody",
        ),
    ),
)  # fmt: skip

SPILL = (S1, S2, S3, S4, S5, S6, S7, S8, S9, S10)
