"""Settings that change, calls that are explained, and gateways that stop."""

from __future__ import annotations

from tests.behaviours import Behaviour, Guard, guard
from tests.simulation.mutations import Change

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
            "fleet.py",
            "            most = max(0.0, min(most, float(window)) - others)\n",
            "            pass\n",
            _VERSIONS + "test_two_versions_have_no_more_calls_with_a_server_than_one",
        ),
        guard(
            "and the cloud what it has there",
            "clouds.py",
            "return self._places[name].in_flight + self._elsewhere(name)",
            "return self._places[name].in_flight",
            _VERSIONS + "test_two_versions_have_no_more_calls_in_the_cloud_than_it_takes",
        ),
        guard(
            "a queue that would be the same is the same",
            "groups.py",
            "                self._adopt(key, group)\n                if key[0]",
            "                if key[0]",
            _VERSIONS + "test_a_queue_that_would_be_the_same_goes_on_with_all_who_wait_there",
        ),
        guard(
            "calls of two versions have numbers of their own",
            "groups.py",
            "        self._numbers = before._numbers  #",
            "        #",
            _RELOADS,
        ),
        guard(
            "what both have stays open",
            "fleet.py",
            "            if id(place) not in kept:\n",
            "            if True:\n",
            _VERSIONS + "test_what_both_have_is_closed_with_the_last_of_them",
            _VERSIONS + "test_a_version_that_is_given_up_before_it_serves_closes_nothing_of_others",
        ),
        guard(
            "who left the GPU is not counted there",
            "groups.py",
            "                self._gpus[name].leave(number)\n",
            "",
            _VERSIONS + "test_models_that_come_and_go_leave_nothing_on_the_gpu",
        ),
        guard(
            "a drain of an operator outlives it",
            "fleet.py",
            "                place.drained = was.drained\n",
            "                pass\n",
            _VERSIONS + "test_a_drained_endpoint_stays_drained_whatever_else_is_said_of_it",
        ),
        guard(
            "what was used of a limit stays used",
            "limits/__init__.py",
            "        found.take(before.most - before.level(now_s), now_s)\n",
            "        pass\n",
            _VERSIONS + "test_to_change_a_quota_grants_nothing_twice",
        ),
        Guard(
            "a wrong file changes nothing, by its own words or as a bug",
            (
                Change("reloading.py", "except ConfigError as exc:", "except OSError as exc:"),
                Change("reloading.py", "        except Exception:\n", "        except OSError:\n"),
            ),
            (_READ + "test_a_file_that_is_wrong_changes_nothing_and_is_told",),
        ),
        guard(
            "a file that is being written is not read",
            "reloading.py",
            " or not stands:",
            ":",
            _READ + "test_a_file_that_is_being_written_is_not_read",
        ),
        guard(
            "what needs a restart is refused",
            "reloading.py",
            "        if fixed:\n",
            "        if False:\n",
            _READ + "test_what_needs_a_restart_is_refused_whole_and_named",
        ),
        guard(
            "nobody gets in because the keys are gone",
            "config/changes.py",
            "    if after.anybody and not before.anybody:\n",
            "    if False:\n",
            _READ + "test_what_needs_a_restart_is_refused_whole_and_named",
        ),
        guard(
            "a version stays as long as it has calls",
            "app.py",
            "        await core.quiet()\n",
            "        await asyncio.sleep(0)\n",
            _LIVE + "test_a_stream_that_is_open_ends_whole_under_the_policy_it_came_to",
        ),
        guard(
            "each message of a gRPC stream comes to the newest",
            "fronts/grpc_stream.py",
            "            services = self._services()\n",
            "            services = self.__dict__.setdefault('first', self._services())\n",
            _LIVE + "test_a_key_that_is_taken_out_is_refused_within_five_seconds",
        ),
        guard(
            "a call over gRPC comes to the newest",
            "fronts/grpc.py",
            "        self._server.forget()\n",
            "",
            _GRPC + "test_a_call_comes_to_the_settings_of_the_moment_when_it_is_whole",
        ),
        guard(
            "a call over HTTP comes to the newest",
            "app.py",
            "            self._http.serve(app)\n",
            "",
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

_STANDING = "properties/test_standing_decisions.py::test_what_stands_is_what_would_be_decided"
_STANDS = (
    guard(
        "a decision that stands is for calls of its kind: those that may leave, or may not",
        "fleet.py",
        "known = self._staying if found.restricted else self._standing",
        "known = self._standing",
        _STANDING,
    ),
    *(guard(name, "standing.py", text, instead, _STANDING) for name, text, instead in (
        (
            "and may go everywhere",
            "            or request.zones is not EVERYWHERE\n", "",
        ),
        (
            "while its places are up",
            "                not place.up\n                or place.drained\n",
            "                place.drained\n",
        ),
        ("take new calls", "                or place.drained\n", ""),
        ("are trusted", "                or lane.breaker.open_until_s\n", ""),
        ("are as fast as ever", "                or lane.health.slow_since_s is not None\n", ""),
        ("have room", "                or place.in_flight >= room.limit\n", ""),
        ("were not asked to wait", "                or room.closed_until_s\n", ""),
        ("are not just back", "                or lane.health.slow_start.going\n", ""),
        (
            "and the cloud is open to its tenant",
            "(self._beside or self._spill.closed(request.tenant))", "self._beside",
        ),
        (
            "where time decides it does not stand",
            "self._timed and left_s < slow_s * self._margin", "False",
        ),
        (
            "nor was it made by time",
            "    return ranked == sorted(set(ranked))", "    return bool(ranked)",
        ),
        (
            "what stays is for all servers alike",
            "len(decision.attempts) == sum(", "0 <= sum(",
        ),
        (
            "a sequence has no part in it",
            " or (type(payload) is TensorCall and not _plain(payload))", "",
        ),
    )),
)  # fmt: skip

O3 = Behaviour(
    "O3",
    "`explain` tells the verdict and the decision that the call would meet in this moment, "
    "refusals of admission, limits, audit and queue included, and sends nothing to any endpoint.",
    (
        guard(
            "admission is asked",
            "pipeline.py",
            "            self._admission.check(request)\n",
            "",
            _EXPLAIN,
        ),
        guard(
            "limits are asked",
            "pipeline.py",
            "            self._limits.check(request)\n",
            "",
            _EXPLAIN,
        ),
        guard(
            "the audit is asked",
            "pipeline.py",
            "            self._accounts.log.check()\n",
            "",
            _EXPLAIN,
        ),
        guard(
            "the queue is asked",
            "pipeline.py",
            "        return self._states.foresee(request, found.restricted, decision)\n",
            "        return decision\n",
            _EXPLAIN,
        ),
        guard(
            "that it would wait is told",
            "pipeline.py",
            "                waits = self._states.worth_waiting(request)\n",
            "                waits = False\n",
            _EXPLAIN,
        ),
        guard(
            "it is read as far as it would be",
            "pipeline.py",
            "            found = await self._classifier.complete(request, found)\n",
            "            return Explanation(found, states, decision, None)\n",
            "unit/test_clearance.py::test_explain_looks_as_far_as_the_live_decision_would",
        ),
        guard(
            "nothing of it is remembered",
            "pipeline.py",
            "explained=True, ",
            "",
            "unit/test_pipeline.py::test_explain_has_the_call_read_as_one_that_is_not_served",
        ),
        *_STANDS,
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
            "pipeline.py",
            "            return why()\n",
            "            pass\n",
            _CUT,
        ),
        guard(
            "streams are cut with a reason",
            "pipeline.py",
            "            stream.cut(why)\n",
            "            pass\n",
            _CUT,
        ),
        guard(
            "what runs has time to finish",
            "app.py",
            "                    await core.accounts.quiet()\n",
            "                    pass\n",
            _DRAIN + "test_what_runs_finishes_and_nobody_new_gets_in",
        ),
        guard(
            "and no more than that",
            "app.py",
            "                core.pipeline.cut()\n",
            "                pass\n",
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
            "fleet.py",
            "return self.onprem_up() or (self._spill.open and self._any_up(Zone.CLOUD))",
            "return self.onprem_up()",
            "unit/test_fleet.py::test_the_gateway_is_ready_while_any_call_has_a_place",
        ),
        guard(
            "one that is closed does not",
            "fleet.py",
            "self.onprem_up() or (self._spill.open and self._any_up(Zone.CLOUD))",
            "self.onprem_up() or self._any_up(Zone.CLOUD)",
            "unit/test_fleet.py::test_a_cloud_that_is_closed_makes_nobody_ready",
        ),
        guard(
            "a drained endpoint is no place",
            "fleet.py",
            "any(p.up and not p.drained for p",
            "any(p.up for p",
            "unit/test_fleet.py::test_the_gateway_is_ready_while_any_call_has_a_place",
        ),
        guard(
            "the signal of its own over HTTP",
            "fronts/ops.py",
            "inspection.ready() and inspection.onprem_up()",
            "inspection.ready()",
            "unit/fronts/test_ops.py::"
            "test_ready_is_one_thing_and_a_place_for_restricted_calls_another",
        ),
        guard(
            "and over gRPC",
            "fronts/grpc.py",
            "and (service != ONPREM_SERVICE or self._onprem_up())",
            "",
            "unit/fronts/test_grpc_inspection.py::test_health_follows_readiness",
        ),
    ),
    also=(
        "scenarios/test_readiness.py::test_it_is_ready_on_every_front",
        "scenarios/test_readiness.py::test_clear_calls_are_served_and_restricted_ones_refused",
    ),
)

OPERATIONS = (O2, O3, O7, O8)
