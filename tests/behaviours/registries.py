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
            "hashes are compared", _R + "fetching.py",
            "        if digest.hexdigest() != content.sha256:\n", "        if False:\n",
            _BROKEN,
        ),
        guard(
            "a file that is longer is cut off at once", _R + "fetching.py",
            "                        if size > content.size:\n",
            "                        if False:\n",
            _BROKEN,
        ),
        guard(
            "what is beside the manifest's files is noticed", _R + "fetching.py",
            "    if more := sorted(there - named - {SIGNATURE}):\n", "    if more := []:\n",
            _BROKEN,
        ),
        guard(
            "the declaration is the manifest's", _R + "fetching.py",
            "    if Content(len(raw), hashlib.sha256(raw).hexdigest()) != manifest.declaration:\n",
            "    if False:\n", _BROKEN,
        ),
        guard(
            "a manifest has one spelling", _R + "manifest.py",
            "    if read.encoded() != raw:\n", "    if False:\n", _NO_MANIFEST,
        ),
        guard(
            "and is of the version that was asked for", _R + "manifest.py",
            "    if (read.model, read.version) != (model, version):\n", "    if False:\n",
            _MANIFEST + "test_a_manifest_of_another_model_or_version_is_refused", _BROKEN,
        ),
        guard(
            "one pull of a model at a time", _R + "workshop.py",
            "                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
            "                pass\n",
            _PULLING + "test_two_pulls_of_a_model_do_not_meet",
        ),
        guard(
            "what a killed one left is swept", _R + "workshop.py",
            '        for left in self.place.glob(f"{_STAGING}-*"):\n', "        for left in ():\n",
            _KILLED,
        ),
        guard(
            "room is looked for first", _R + "fetching.py",
            "    if free < manifest.size + _SPARE_BYTES:\n", "    if False:\n",
            _INTERRUPTED + "test_a_disk_without_room_is_noticed_before_anything_comes",
        ),
        guard(
            "a version that is too large is not fetched", _R + "fetching.py",
            "    if found.size > source.most_bytes:\n", "    if False:\n",
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
            "it is tried in a Triton of its own", _R + "pulling.py",
            "        trial.passed(staging, declared, manifest.version)\n", "        pass\n",
            _PULLING + "test_a_version_is_tried_in_a_triton_of_its_own_before_the_one_that_serves"
            "_sees_it",
        ),
        guard(
            "and asked again where it serves", _R + "installing.py",
            "        server.ask(declaration, version, 1 if declaration.batch else 0)\n", "",
            _FAILING,
        ),
        guard(
            "what it answers is compared", _R + "server.py",
            "    if said := canaries.wrong(declaration, reply.outputs, rows):\n",
            "    if said := '':\n",
            _FAILING,
        ),
        guard(
            "one that fails is taken out", _R + "installing.py",
            "        _undo(workshop, Pending(version, fresh), servers)\n", "        pass\n",
            _FAILING,
        ),
        guard(
            "one whose canary was never asked is asked later", _R + "pulling.py",
            "        installing.recover(shop, declared_here(shop), servers)\n", "", _KILLED,
        ),
        guard(
            "its graph is the declared one", _R + "pulling.py",
            "    graph.check(staged, declared)\n", "", _BROKEN,
        ),
        guard(
            "its interface is the one here", _R + "pulling.py",
            "        if getattr(own, what) != getattr(theirs, what):\n", "        if False:\n",
            _BROKEN,
        ),
        guard(
            "one that was rolled back does not come again by itself", _R + "pulling.py",
            "    if there[-1] in shop.withdrawn() and there[-1] not in shop.versions():\n",
            "    if False:\n",
            _PULLING + "test_a_good_version_serves_and_the_one_before_can_again",
        ),
        guard(
            "the server is ready while a model loads", "embedded/control.py",
            '        "--strict-readiness=false",\n', "",
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
            "paths stay in the version's directory", _R + "manifest.py",
            "        if len(parts) > _MOST_PARTS or LEFT_OUT in parts or not "
            "all(map(_PART.fullmatch, parts)):\n",
            "        if False:\n",
            _MANIFEST + "test_a_path_that_could_lead_anywhere_else_is_refused", _BROKEN,
        ),
        guard(
            "links are not followed out of a shared directory", _R + "directory.py",
            "            if not (home / path).resolve().is_relative_to(home.resolve()):\n",
            "            if False:\n",
            _BROKEN,
        ),
        guard(
            "redirects stay on the host", _R + "web.py",
            "        if urlsplit(onward)[:2] != urlsplit(self._base)[:2]:\n", "        if False:\n",
            _WEB + "test_what_a_server_answers_is_told_in_words",
        ),
        guard(
            "credentials are not shown to the network", _R + "web.py",
            "        _refuse_open_credentials(base, access.token is not None or sign is not None)"
            "\n",
            "",
            _REGISTRIES + "test_credentials_do_not_go_over_plain_http",
        ),
        guard(
            "the environment names no proxy", _R + "web.py",
            "            trust_env=False,\n", "",
            _WEB + "test_nothing_of_the_environment_stands_between",
        ),
        guard(
            "a signature that is wanted is checked", _R + "fetching.py",
            "    if source.public_key is not None:\n", "    if False:\n",
            _SIGNING + "test_where_a_key_is_named_only_what_it_signed_is_pulled",
        ),
    ),
)  # fmt: skip

R4 = Behaviour(
    "R4",
    "Nobody but the operator of the gateway makes its Triton load a model, over any protocol.",
    (
        guard(
            "over HTTP it wants the key", "embedded/control.py",
            '        f"--http-restricted-api=model-repository:{HEADER}={key}",\n', "",
            _CONTROL + "test_only_who_has_the_key_can_tell_it_to_load_over_either_protocol",
        ),
        guard(
            "and over gRPC", "embedded/control.py",
            '        f"--grpc-restricted-protocol=model-repository:{HEADER}={key}",\n', "",
            _CONTROL + "test_only_who_has_the_key_can_tell_it_to_load_over_either_protocol",
        ),
        guard(
            "the key is told to its owner alone", "embedded/control.py", "0o600", "0o644",
            _CONTROL + "test_the_key_is_for_its_owner_alone",
        ),
        guard(
            "who is gone is not believed", "embedded/control.py",
            "home.lstat().st_uid in trusted and _lives(home)", "home.lstat().st_uid in trusted",
            _CONTROL + "test_a_server_whose_gateway_is_gone_is_not_believed",
        ),
    ),
    also=(
        _CONTROL + "test_without_reload_nobody_can_tell_it_anything",
        _SCENARIO + "test_callers_cannot_reach_what_loads_models",
    ),
)  # fmt: skip

REGISTRIES = (R1, R2, R3, R4)
