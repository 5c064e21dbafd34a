"""Models that are built on the premises."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_M = "unit/models/"
_ADOPT = _M + "test_adopt.py::"
_BAD = _ADOPT + "test_a_bad_file_leaves_the_version_that_serves_untouched"
_BUILD = _M + "test_build.py::"
_FULL = _BUILD + "test_a_full_disk_changes_nothing_and_is_told"
_GRAPH = _M + "test_graph.py::"
_QUANTIZE = _M + "test_quantize.py::"
_VERIFY = _M + "test_verify.py::"
_DECLARED = _M + "test_declaration.py::test_a_mistake_is_told_with_its_line"
_CONFIGS = _M + "test_configs.py::"

V1 = Behaviour(
    "V1",
    "An ONNX file that is broken or not the declared one, a compiler that fails and a full disk "
    "leave every byte that serves as it was, leave nothing behind, and are told with what to do.",
    (
        guard(
            "a graph is checked in full", "models/graph.py",
            "        onnx.checker.check_model(str(path), full_check=True)\n", "",
            _GRAPH + "test_a_file_that_is_no_whole_model_is_refused_with_what_to_do",
        ),
        guard(
            "its tensors are the declared ones", "models/build.py",
            "    if differences := graph.disagreements(found, declared):\n"
            '        raise WrongModel("\\n".join(f"{source}: {line}" for line in differences))\n'
            "    session",
            "    session",
            _BAD,
        ),
        guard(
            "its outputs have a row for each row", "models/build.py",
            "if declared.batch is not None and len(answered[name]) != rows:", "if False:",
            _BUILD + "test_a_graph_whose_outputs_are_not_rows_is_refused",
        ),
        guard(
            "variants are made beside their place", "models/build.py",
            "    with versions.staging(source.parent) as staged:\n",
            "    import contextlib\n"
            "    with contextlib.nullcontext(source.parent) as staged:\n",
            _BUILD + "test_a_compiler_that_fails_half_way_leaves_nothing",
        ),
        guard(
            "a staging directory ends with its run", "models/versions.py",
            "    finally:\n        shutil.rmtree(made, ignore_errors=True)\n",
            "    finally:\n",
            _BUILD + "test_a_compiler_that_fails_half_way_leaves_nothing", _BAD, _FULL,
        ),
        guard(
            "and one that was killed is swept by the next", "models/build.py",
            "    versions.swept(source.parent)\n", "",
            _BUILD + "test_what_an_interrupted_run_left_is_swept",
        ),
        guard(
            "and not while it is at work", "models/versions.py",
            "                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "",
            _BUILD + "test_what_another_run_is_at_stays",
        ),
        guard(
            "no room to write is told", "models/versions.py",
            "        raise _unwritten(Path(exc.filename or beside), exc) from exc\n",
            "        raise\n",
            _FULL,
        ),
        guard(
            "also where ONNX Runtime writes", "models/sessions.py",
            "            if optimised_to is not None:", "            if False:", _FULL,
        ),
        guard(
            "what is added answers its canary", "models/adopt.py",
            "        if not verified.ok:\n", "        if False:\n",
            _ADOPT + "test_weights_with_another_answer_to_the_canary_are_refused",
        ),
    ),
    also=("scenarios/test_new_models.py::test_tensors_are_answered_over_both_wires",),
)  # fmt: skip

V2 = Behaviour(
    "V2",
    "A variant in lower precision is kept only within the accuracy gate and near the fp32 "
    "reference, and what was measured of it is forgotten with its bytes.",
    (
        guard(
            "the gate of 8 bits", "models/quantize.py",
            "        if found.loss > found.largest_loss:\n", "        if False:\n",
            _QUANTIZE + "test_a_variant_past_the_gate_is_refused_and_what_is_there_stays",
        ),
        guard(
            "the gate of 16 bits", "models/build.py",
            "    if before - after > declared.accuracy.largest_loss:\n", "    if False:\n",
            _BUILD + "test_a_variant_past_the_accuracy_gate_is_not_kept",
        ),
        guard(
            "the comparison with the reference", "models/build.py",
            "    if not found.ok:\n", "    if False:\n",
            _BUILD + "test_a_variant_that_is_too_far_off_is_not_kept",
        ),
        guard(
            "int8 needs a gate", "models/declaration.py",
            "        if Precision.INT8 in self.precisions and self.accuracy is None:\n",
            "        if False:\n",
            _DECLARED,
        ),
        guard(
            "outputs of another size are told", "models/verify.py",
            '            return Off(float("inf"), name, sample.name)\n',
            "            continue\n",
            _VERIFY + "test_a_variant_with_outputs_of_another_size_is_infinitely_far",
        ),
        guard(
            "weights that changed are told", "models/verify.py",
            "            if not _alike(held.get(sample.name, {}).get(name), told):\n",
            "            if False:\n",
            _VERIFY + "test_weights_that_changed_are_told_by_the_golden_file",
        ),
        guard(
            "figures are of these bytes", "models/evidence.py",
            '        and known.get("sha256") == versions.sha256(version / name)\n', "",
            _VERIFY + "test_what_was_measured_of_other_bytes_is_not_known_of_these",
        ),
    ),
    also=(_QUANTIZE + "test_minilm_in_8_bits_is_small_and_nearly_as_good",),
)  # fmt: skip

V3 = Behaviour(
    "V3",
    "Callers see the same tensors whatever serves a model, and every config that is checked in is "
    "what its model.yaml stands for.",
    (
        guard(
            "a graph with other tensors is not served by itself", "models/declaration.py",
            "if self.graph_inputs is not self.inputs or self.graph_outputs is not self.outputs:",
            "if False:",
            _DECLARED,
        ),
        guard(
            "batching is plain", "models/configs.py",
            '    inside = ""\n', '    inside = "default_queue_policy { max_queue_size: 16 } "\n',
            _CONFIGS + "test_batching_is_plain_unless_the_declaration_says_more",
            _CONFIGS + "test_what_is_checked_in_is_what_the_declaration_generates",
            _CONFIGS + "test_triton_reads_what_is_generated_as_it_is_declared",
        ),
        guard(
            "a config that was changed by hand is told", "models/configs.py",
            "p.read_text() != text", "False",
            _M + "test_models_command.py::test_a_stale_config_is_told",
        ),
    ),
    also=(_CONFIGS + "test_callers_see_the_same_tensors_whatever_serves",),
)  # fmt: skip

MODELS = (V1, V2, V3)
