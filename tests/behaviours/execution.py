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
            "what is no provider of ONNX Runtime is left out", "embedded/providers.py",
            'if not _PROVIDER.fullmatch(labels["provider"]):', "if False:",
            _UNREADABLE,
        ),
        guard(
            "what is no more is left out", "embedded/providers.py",
            " if s.value == 1]", "]",
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
            "another machine's figures do not count", "priors.py",
            "    return profile.machine == here\n", "    return True\n",
            _PROFILES + "test_what_was_measured_on_this_machine_is_what_the_queue_begins_with",
        ),
        guard(
            "a profile's times are numbers above 0", "models/profiling/__init__.py",
            "if not all(math.isfinite(t) and t >= 0 for t in times) or not sum(times) > 0:",
            "if False:",
            _PROFILES + "test_what_is_no_profile_says_to_measure_again",
        ),
        guard(
            "a row takes no less than nothing", "models/profiling/__init__.py",
            "        if b < 0:\n", "        if False:\n",
            _PROFILES + "test_larger_batches_that_take_less_are_noise_and_no_speed",
        ),
        guard(
            "calls that end one by one are no batches", "groups.py",
            "prior = None if alone else self._measured(model, server)",
            "prior = self._measured(model, server)",
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
            "a config with a response cache is a hazard", "repository.py",
            "    if config.response_cache.enable:\n", "    if False:\n",
            "unit/test_repository.py::test_a_model_whose_answers_triton_would_keep_is_a_hazard",
        ),
    ),
    ("models/test_sessions.py::test_no_model_of_the_server_has_its_answers_kept",),
)  # fmt: skip

EXECUTION = (E1, E2, E3)
