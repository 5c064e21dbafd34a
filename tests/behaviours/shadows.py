"""Shadow policies: asked about every call, and obeyed in none."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_SHADOWS = "unit/shadows/test_shadows.py::"
_SERVERS = "unit/shadows/test_servers.py::"
_SETTINGS = "unit/shadows/test_settings.py::"

O4 = Behaviour(
    "O4",
    "A shadow policy is asked about every live call and changes none. It cannot reach an endpoint, "
    "no error of it is felt, what it takes is bounded, and what it would have done is counted: "
    "from queues of its own, which its own decisions fill.",
    (
        guard(
            "nothing that a shadow is made of has a door", "O4.no-door",
            "unit/shadows/test_doors.py::"
            "test_nothing_that_shadows_import_however_far_has_a_door",
        ),
        guard(
            "the live call goes first", "O4.live-first",
            _SHADOWS + "test_a_shadow_is_asked_when_the_live_call_is_on_its_way",
        ),
        guard(
            "a restricted call stays, also where a shadow would send everything away",
            "O4.restricted-stays",
            _SHADOWS + "test_no_shadow_sends_a_restricted_call_away_when_nobody_else_is_left",
        ),
        guard(
            "what turns out to be restricted is decided on anew", "O4.restricted-redecision",
            _SHADOWS + "test_a_call_that_turns_out_to_be_restricted_is_decided_on_anew",
        ),
        guard(
            "nothing is told of a restricted call that shadows took for clear",
            "O4.restricted-silence",
            _SHADOWS
            + "test_of_a_call_that_nobody_could_decide_on_anew_the_record_says_nothing",
        ),
        guard(
            "an error is the shadow's own", "O4.shadow-error",
            _SHADOWS + "test_a_shadow_that_fails_is_counted_and_felt_by_nobody",
        ),
        guard(
            "no more of the gateway's time than its share", "O4.time-share",
            _SHADOWS + "test_a_shadow_that_takes_too_much_time_is_left_out_for_a_while",
        ),
        guard(
            "and not much of it at once", "O4.time-slice",
            _SERVERS + "test_what_takes_too_long_is_gone_on_with_later",
        ),
        guard(
            "at most four", "O4.shadow-limit",
            _SETTINGS + "test_nonsense_is_refused_with_its_line",
        ),
        guard(
            "none where other gateways use the same servers", "O4.no-cluster",
            _SETTINGS + "test_with_a_cluster_there_are_none",
        ),
        guard(
            "its servers take the time that live ones take", "O4.live-times",
            _SHADOWS + "test_a_shadow_that_keeps_every_call_sees_its_own_queue_grow",
            _SHADOWS + "test_what_a_shadow_predicts_is_what_happens_once_it_is_live",
            _SERVERS + "test_a_batch_takes_what_the_live_ones_take",
        ),
        guard(
            "its calls fill the cloud for it alone", "O4.own-cloud-load",
            _SHADOWS + "test_the_cloud_of_a_shadow_is_as_large_as_the_live_one",
        ),
        guard(
            "what happens in no server teaches nobody", "O4.serverless-calls",
            _SHADOWS + "test_what_happens_in_no_server_teaches_nobody",
            _SERVERS + "test_what_is_borrowed_is_renewed_and_never_taught",
        ),
        guard(
            "a call whose caller left is taken from its queues", "O4.departed-call",
            _SHADOWS + "test_a_caller_who_leaves_takes_its_call_from_the_shadows",
        ),
    ),
    also=(
        "simulation/test_seeds.py::test_shadow_policies_change_nothing",
        _SHADOWS + "test_shadows_change_no_placement_and_reach_no_endpoint",
        _SHADOWS + "test_a_shadow_with_the_live_policy_decides_like_it",
        "scenarios/test_shadows.py::test_what_a_shadow_chooses_is_counted_and_nothing_of_it_is_sent",
    ),
)  # fmt: skip

SHADOWS = (O4,)
