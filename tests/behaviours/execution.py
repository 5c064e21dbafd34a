"""How models are executed on the premises, and what is known of it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_PROFILES = "unit/models/profiling/test_profiles.py::"
_UNREADABLE = "unit/test_providers.py::test_what_cannot_be_read_is_left_out_and_hides_nothing_else"

E1 = Behaviour(
    "E1",
    "A model says itself what it really runs on; nothing else that stands in a server's metrics "
    "becomes a label.",
    (
        guard(
            "what is no provider of ONNX Runtime is left out", "E1.provider-name",
            _UNREADABLE,
        ),
        guard(
            "what is no more is left out", "E1.provider-gone",
            _UNREADABLE,
        ),
    ),
    (
        "models/test_sessions.py::test_a_provider_that_only_seems_to_load_is_passed_over",
        "models/test_sessions.py::"
        "test_every_model_with_a_graph_tells_in_tritons_metrics_what_it_runs_on",
        "scenarios/test_providers.py::test_the_gateway_says_what_each_model_runs_on",
    ),
)  # fmt: skip

E2 = Behaviour(
    "E2",
    "A queue begins with what its model's batches were measured to take, where that was on this "
    "machine; no batch is promised for nothing.",
    (
        guard(
            "another machine's figures do not count", "E2.machine-match",
            _PROFILES + "test_what_was_measured_on_this_machine_is_what_the_queue_begins_with",
        ),
        guard(
            "a profile's times are numbers above 0", "E2.positive-times",
            _PROFILES + "test_what_is_no_profile_says_to_measure_again",
        ),
        guard(
            "a row takes no less than nothing", "E2.row-time",
            _PROFILES + "test_larger_batches_that_take_less_are_noise_and_no_speed",
        ),
        guard(
            "calls that end one by one are no batches", "E2.batch-priors",
            "unit/test_groups.py::"
            "test_a_queue_begins_with_what_was_measured_where_calls_make_batches",
        ),
    ),
    ("models/test_profiling.py::test_a_profile_of_a_served_model_is_kept_and_drawn",),
)  # fmt: skip

E3 = Behaviour(
    "E3",
    "No server of models/ keeps answers; a model whose config would have them kept is told of.",
    (
        guard(
            "a config with a response cache is a hazard", "E3.response-cache",
            "unit/test_repository.py::test_a_model_whose_answers_triton_would_keep_is_a_hazard",
        ),
    ),
    ("models/test_sessions.py::test_no_model_of_the_server_has_its_answers_kept",),
)  # fmt: skip

_TRIAL = "unit/models/test_row_trial.py::"
_FOUND = _TRIAL + "test_rows_that_influence_each_other_are_found"
_MODELS = "unit/models/test_batching.py::"
_SERVERS = "unit/test_row_trials.py::"
_ONE = "unit/test_groups.py::test_calls_whose_rows_may_not_share_a_batch_go_one_at_a_time"

E4 = Behaviour(
    "E4",
    "Rows of several callers share a batch only where rows of the gateway's own had, in one, the "
    "answers that they have alone; else one call at a time goes to the model, and that is told.",
    (
        guard(
            "batches of two", "E4.pair-batch",
            _FOUND,
        ),
        guard(
            "a row twice in a batch", "E4.repeated-row",
            _TRIAL + "test_they_are_found_in_batches_of_two",
            _TRIAL + "test_batches_have_several_sizes_and_orders_and_no_more_rows_than_may_be",
        ),
        guard(
            "the largest batch", "E4.largest-batch",
            _FOUND,
        ),
        guard(
            "answers that are all alike say nothing", "E4.constant-answers",
            _TRIAL + "test_a_model_with_the_same_answer_for_all_says_nothing",
        ),
        guard(
            "a new model is tried", "E4.adopted-model",
            _MODELS + "test_a_model_whose_rows_influence_each_other_is_served_unbatched",
        ),
        guard(
            "texts of unequal length are tried", "E4.padded-texts",
            _MODELS + "test_padding_that_counts_is_an_influence",
        ),
        guard(
            "no config with batches is written without a trial", "E4.config-trial",
            _MODELS + "test_no_config_with_batching_is_written_for_it",
        ),
        guard(
            "a version from a registry is tried", "E4.registry-trial",
            _MODELS + "test_a_version_from_a_registry_is_tried_where_the_model_here_batches",
        ),
        guard(
            "until a server was tried it has one call at a time", "E4.untried-server",
            _SERVERS + "test_a_server_that_tells_nothing_has_one_call_at_a_time",
        ),
        guard(
            "no trial beside callers' calls", "E4.idle-trial",
            _SERVERS + "test_a_trial_does_not_run_beside_callers_calls",
        ),
        guard(
            "nothing is sent where nothing may be", "E4.trial-permission",
            _SERVERS + "test_where_no_inference_of_our_own_may_be_sent_none_is",
        ),
        guard(
            "another version is tried anew", "E4.version-retrial",
            _SERVERS + "test_what_was_tried_counts_until_the_model_is_another",
        ),
        guard(
            "none is sent ahead", "E4.batch-ahead",
            _ONE,
        ),
        guard(
            "nor beside another", "E4.batch-concurrency",
            _ONE,
        ),
    ),
    (
        "scenarios/test_row_trials.py::test_a_row_has_one_answer_whoever_calls_beside_it",
        "scenarios/test_row_trials.py::test_calls_to_a_model_whose_rows_are_independent_are_joined",
        "scenarios/test_row_trials.py::"
        "test_an_operator_sees_which_models_are_unbatched_and_why",
    ),
)  # fmt: skip

EXECUTION = (E1, E2, E3, E4)
