"""Versions of models that come from a registry."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_PULLING = "unit/models/registry/test_pulling.py::"
_BROKEN = _PULLING + "test_a_broken_version_leaves_the_one_that_serves_untouched"
_FAILING = _PULLING + "test_a_version_that_does_not_work_is_taken_out_and_the_one_before_serves"
_WHATEVER = _PULLING + "test_whatever_bytes_a_registry_answers_a_version_is_whole_or_absent"
_INTERRUPTED = "unit/models/registry/test_interrupted.py::"
_KILLED = (
    _INTERRUPTED + "test_a_pull_that_is_killed_leaves_versions_whole_and_the_next_one_finishes"
)
_MANIFEST = "unit/models/registry/test_manifest.py::"
_NO_MANIFEST = _MANIFEST + "test_what_is_not_a_manifest_to_the_byte_is_refused"
_WEB = "unit/models/registry/test_web.py::"
_REGISTRIES = "unit/models/registry/test_registries.py::"
_SIGNING = "unit/models/registry/test_signing.py::"
_CONTROL = "unit/test_embedded_control.py::"
_SCENARIO = "scenarios/test_pulled_models.py::"
_R = "models/registry/"

R1 = Behaviour(
    "R1",
    "Whatever a registry answers, and whenever a pull is killed or the disk is full, a version of "
    "a model in the repository is absent or, to the byte, what the manifest says; the versions "
    "that were there are untouched, and nothing else is left.",
    (
        guard(
            "hashes are compared", "R1.file-hash",
            _BROKEN,
        ),
        guard(
            "a file that is longer is cut off at once", "R1.file-length",
            _BROKEN,
        ),
        guard(
            "what is beside the manifest's files is noticed", "R1.extra-files",
            _BROKEN,
        ),
        guard(
            "the declaration is the manifest's", "R1.declaration-match",
            _BROKEN,
        ),
        guard(
            "a manifest has one spelling", "R1.manifest-spelling",
            _NO_MANIFEST,
        ),
        guard(
            "and is of the version that was asked for", "R1.manifest-version",
            _MANIFEST + "test_a_manifest_of_another_model_or_version_is_refused",
            _BROKEN,
        ),
        guard(
            "one pull of a model at a time", "R1.pull-lock",
            _PULLING + "test_two_pulls_of_a_model_do_not_meet",
        ),
        guard(
            "what a killed one left is swept", "R1.stale-pull",
            _KILLED,
        ),
        guard(
            "room is looked for first", "R1.disk-room",
            _INTERRUPTED + "test_a_disk_without_room_is_noticed_before_anything_comes",
        ),
        guard(
            "a version that is too large is not fetched", "R1.version-size",
            _PULLING + "test_a_version_that_is_too_large_is_refused_before_its_files_come",
        ),
    ),
    also=(
        _WHATEVER,
        _INTERRUPTED + "test_a_file_system_that_takes_no_more_leaves_the_version_that_serves",
    ),
)  # fmt: skip

R2 = Behaviour(
    "R2",
    "A version serves once it has loaded and has answered the declared canary, and until then, or "
    "if it fails, the one before does.",
    (
        guard(
            "it is tried in a Triton of its own", "R2.trial-triton",
            _PULLING + "test_a_version_is_tried_in_a_triton_of_its_own_before_the_one_that_serves"
            "_sees_it",
        ),
        guard(
            "and asked again where it serves", "R2.serving-canary",
            _FAILING,
        ),
        guard(
            "what it answers is compared", "R2.canary-answer",
            _FAILING,
        ),
        guard(
            "one that fails is taken out", "R2.failed-version",
            _FAILING,
        ),
        guard(
            "one whose canary was never asked is asked later", "R2.pending-canary",
            _KILLED,
        ),
        guard(
            "its graph is the declared one", "R2.declared-graph",
            _BROKEN,
        ),
        guard(
            "its interface is the one here", "R2.same-interface",
            _BROKEN,
        ),
        guard(
            "one that was rolled back does not come again by itself", "R2.rolled-back",
            _PULLING + "test_a_good_version_serves_and_the_one_before_can_again",
        ),
        guard(
            "the server is ready while a model loads", "R2.ready-loading",
            _SCENARIO + "test_no_call_is_lost_while_versions_come_go_and_fail",
        ),
    ),
)  # fmt: skip

R3 = Behaviour(
    "R3",
    "Nothing that a registry says leads elsewhere: to another path, another host, a proxy of the "
    "environment, or whoever listens on the way.",
    (
        guard(
            "paths stay in the version's directory", "R3.path-containment",
            _MANIFEST + "test_a_path_that_could_lead_anywhere_else_is_refused",
            _BROKEN,
        ),
        guard(
            "links are not followed out of a shared directory", "R3.symlink",
            _BROKEN,
        ),
        guard(
            "redirects stay on the host", "R3.redirect-host",
            _WEB + "test_what_a_server_answers_is_told_in_words",
        ),
        guard(
            "credentials are not shown to the network", "R3.plain-http",
            _REGISTRIES + "test_credentials_do_not_go_over_plain_http",
        ),
        guard(
            "the environment names no proxy", "R3.no-proxy",
            _WEB + "test_nothing_of_the_environment_stands_between",
        ),
        guard(
            "a signature that is wanted is checked", "R3.manifest-signature",
            _SIGNING + "test_where_a_key_is_named_only_what_it_signed_is_pulled",
        ),
    ),
)  # fmt: skip

R4 = Behaviour(
    "R4",
    "Nobody but the operator of the gateway makes its Triton load a model, over any protocol.",
    (
        guard(
            "over HTTP it wants the key", "R4.http-key",
            _CONTROL + "test_only_who_has_the_key_can_tell_it_to_load_over_either_protocol",
        ),
        guard(
            "and over gRPC", "R4.grpc-key",
            _CONTROL + "test_only_who_has_the_key_can_tell_it_to_load_over_either_protocol",
        ),
        guard(
            "the key is told to its owner alone", "R4.key-permissions",
            _CONTROL + "test_the_key_is_for_its_owner_alone",
        ),
        guard(
            "who is gone is not believed", "R4.gateway-gone",
            _CONTROL + "test_a_server_whose_gateway_is_gone_is_not_believed",
        ),
    ),
    also=(
        _CONTROL + "test_without_reload_nobody_can_tell_it_anything",
        _SCENARIO + "test_callers_cannot_reach_what_loads_models",
    ),
)  # fmt: skip

REGISTRIES = (R1, R2, R3, R4)
