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
            "a graph is checked in full", "V1.graph-check",
            _GRAPH + "test_a_file_that_is_no_whole_model_is_refused_with_what_to_do",
        ),
        guard(
            "its tensors are the declared ones", "V1.declared-tensors",
            _BAD,
        ),
        guard(
            "its outputs have a row for each row", "V1.output-rows",
            _BUILD + "test_a_graph_whose_outputs_are_not_rows_is_refused",
        ),
        guard(
            "variants are made beside their place", "V1.build-aside",
            _BUILD + "test_a_compiler_that_fails_half_way_leaves_nothing",
        ),
        guard(
            "a staging directory ends with its run", "V1.staging-cleanup",
            _BUILD + "test_a_compiler_that_fails_half_way_leaves_nothing",
            _BAD,
            _FULL,
        ),
        guard(
            "and one that was killed is swept by the next", "V1.stale-staging",
            _BUILD + "test_what_an_interrupted_run_left_is_swept",
        ),
        guard(
            "and not while it is at work", "V1.staging-lock",
            _BUILD + "test_what_another_run_is_at_stays",
        ),
        guard(
            "no room to write is told", "V1.disk-full",
            _FULL,
        ),
        guard(
            "also where ONNX Runtime writes", "V1.onnx-disk-full",
            _FULL,
        ),
        guard(
            "what is added answers its canary", "V1.canary-answer",
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
            "the gate of 8 bits", "V2.int8-gate",
            _QUANTIZE + "test_a_variant_past_the_gate_is_refused_and_what_is_there_stays",
        ),
        guard(
            "the gate of 16 bits", "V2.accuracy-gate",
            _BUILD + "test_a_variant_past_the_accuracy_gate_is_not_kept",
        ),
        guard(
            "the comparison with the reference", "V2.reference-error",
            _BUILD + "test_a_variant_that_is_too_far_off_is_not_kept",
        ),
        guard(
            "int8 needs a gate", "V2.gate-required",
            _DECLARED,
        ),
        guard(
            "outputs of another size are told", "V2.output-shape",
            _VERIFY + "test_a_variant_with_outputs_of_another_size_is_infinitely_far",
        ),
        guard(
            "weights that changed are told", "V2.changed-weights",
            _VERIFY + "test_weights_that_changed_are_told_by_the_golden_file",
        ),
        guard(
            "figures are of these bytes", "V2.evidence-digest",
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
            "a graph with other tensors is not served by itself", "V3.declared-tensors",
            _DECLARED,
        ),
        guard(
            "batching is plain", "V3.plain-batching",
            _CONFIGS + "test_batching_is_plain_unless_the_declaration_says_more",
            _CONFIGS + "test_what_is_checked_in_is_what_the_declaration_generates",
            _CONFIGS + "test_triton_reads_what_is_generated_as_it_is_declared",
        ),
        guard(
            "a config that was changed by hand is told", "V3.config-drift",
            _M + "test_models_command.py::test_a_stale_config_is_told",
        ),
    ),
    also=(_CONFIGS + "test_callers_see_the_same_tensors_whatever_serves",),
)  # fmt: skip

MODELS = (V1, V2, V3)
