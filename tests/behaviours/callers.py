"""Who calls, what it may, and how much."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_ALIKE = "unit/fronts/test_credentials.py::test_every_front_knows_callers_alike"
_FRONTS = "unit/fronts/test_credentials.py::"
_OPENINGS = "unit/fronts/test_openings.py::"
_GRPC_OPENINGS = "unit/fronts/test_grpc_openings.py::"
_ISSUED = "unit/callers/test_issued.py::"
_FORM = "unit/callers/test_key_form.py::"
_JWS = "unit/callers/test_jws.py::"
_FORGED = _JWS + "test_a_token_that_is_not_in_order_is_not_believed"
_UNFIT = _JWS + "test_a_key_that_is_not_for_this_is_not_used"
_TOKENS = "unit/callers/test_tokens.py::"
_CLAIMS = _TOKENS + "test_a_token_whose_claims_are_wrong_is_refused"
_LIMITS = "unit/limits/test_limits.py::"
_PIPELINE = "unit/limits/test_in_the_pipeline.py::"
_TLS = "unit/fronts/test_tls.py::"
_NAMES = _TLS + "test_the_names_in_a_certificate_say_who_calls_on_both_listeners"
_ENDPOINT = "unit/backends/test_endpoint_tls.py::"
_CALLERS = "unit/test_callers.py::"

M5 = Behaviour(
    "M5",
    "Tenants and floors come from the credential alone, on HTTP and gRPC alike; the floors of key, "
    "tenant and certificate are put together, and no header lifts them.",
    (
        guard(
            "who is not known is refused", "M5.unknown-caller",
            _ALIKE,
            _CALLERS + "test_whoever_has_no_known_key_is_refused",
        ),
        guard(
            "and who sends nothing", "M5.no-credentials",
            _ALIKE,
        ),
        guard(
            "a store without keys is not development mode", "M5.empty-store",
            _ISSUED + "test_an_empty_store_is_not_development_mode",
        ),
        guard(
            "development mode stays on the loopback", "M5.loopback-only",
            "unit/test_config_callers.py::"
            "test_without_credentials_only_the_loopback_is_listened_on",
        ),
        guard(
            "the floors of a certificate hold beside a key", "M5.certificate-floors",
            _TLS + "test_a_key_says_who_calls_and_the_floors_of_the_certificate_hold_too",
        ),
        guard(
            "a certificate that names two names nobody", "M5.certificate-name",
            _NAMES,
        ),
        guard(
            "a key that adds what nobody looks for stays", "M5.unscanned-types",
            _ISSUED + "test_a_key_that_restricts_what_nobody_looks_for_stays_on_the_premises",
        ),
        guard(
            "an issuer names the tenants that it may", "M5.issuer-tenants",
            _TOKENS + "test_an_issuer_may_be_kept_to_some_tenants",
        ),
        guard(
            "and grants the models of a token's scopes", "M5.scope-models",
            _TOKENS + "test_scopes_grant_models",
        ),
        guard(
            "clients show a certificate of the authority, over HTTP and gRPC",
            "M5.client-certificate",
            _TLS + "test_who_connects_must_show_a_certificate_of_the_authority",
        ),
        guard(
            "gRPC has the listener's TLS", "M5.grpc-tls",
            _TLS + "test_both_listeners_speak_tls_and_nothing_else",
            _TLS + "test_who_connects_must_show_a_certificate_of_the_authority",
        ),
        guard(
            "a session does not get in what a handshake would refuse", "M5.session-resumption",
            _TLS + "test_clients_of_an_authority_that_was_taken_back_are_not_let_in_again",
        ),
        guard(
            "each zone has its own certificate", "M5.zone-certificate",
            _ENDPOINT + "test_the_cloud_never_sees_the_certificate_of_the_premises",
        ),
    ),
)  # fmt: skip

_OF_TOKENS = (
    guard(
        "the issuer's algorithms and no others", "B6.issuer-algorithms",
        _JWS + "test_an_algorithm_that_its_issuer_does_not_use_is_not_believed",
    ),
    guard(
        "no keys and addresses of keys out of a token", "B6.embedded-keys",
        _FORGED,
    ),
    guard(
        "one spelling of base64", "B6.base64-spelling",
        _JWS + "test_a_signature_has_one_spelling",
    ),
    guard(
        "the key's own algorithm", "B6.key-algorithm",
        _UNFIT,
    ),
    guard(
        "the key's use", "B6.key-use",
        _UNFIT,
    ),
    guard(
        "no private key", "B6.private-key",
        _UNFIT,
    ),
    guard(
        "no weak key", "B6.weak-key",
        _UNFIT,
    ),
    guard(
        "one key that fits", "B6.single-key-match",
        _JWS + "test_a_token_without_a_key_id_needs_one_key_that_fits",
    ),
    guard(
        "names that stand twice", "B6.duplicate-claims",
        _JWS + "test_claims_that_stand_twice_are_not_believed",
    ),
    guard(
        "the audience", "B6.audience",
        _CLAIMS,
    ),
    guard(
        "the end", "B6.expiry",
        _CLAIMS,
    ),
    guard(
        "also of a token that is remembered", "B6.cached-expiry",
        _TOKENS + "test_a_token_that_was_verified_is_refused_once_it_expires",
    ),
    guard(
        "and the keys that it was verified with", "B6.cached-keys",
        _TOKENS + "test_a_key_that_its_issuer_took_back_is_refused_with_the_next_fetch",
    ),
    guard(
        "the beginning", "B6.not-before",
        _CLAIMS,
    ),
    guard(
        "old keys of an issuer that is down", "B6.stale-issuer-keys",
        _TOKENS + "test_while_the_issuer_is_down_its_keys_count_for_so_long_and_no_longer",
    ),
    guard(
        "a flood of made-up keys is one fetch", "B6.refetch-limit",
        _TOKENS + "test_a_new_key_of_the_issuer_is_fetched_when_a_token_comes_with_it",
    ),
    guard(
        "an endless answer", "B6.key-set-size",
        _TOKENS + "test_an_answer_that_is_no_set_of_keys_changes_nothing",
    ),
    guard(
        "no proxy", "B6.no-proxy",
        _TOKENS + "test_no_proxy_out_of_the_environment_is_asked",
    ),
)  # fmt: skip


B6 = Behaviour(
    "B6",
    "Keys are kept as digests and compared in constant time; each has models, floors, limits and "
    "priorities of its own; a revoked one is refused within five seconds, whatever fails. A "
    "token of an issuer is believed when it is in order in every part, and no call waits for an "
    "issuer. Labels of tenants are capped.",
    (
        guard(
            "the secret is compared", "B6.secret-match",
            _ISSUED + "test_the_secret_counts_and_not_the_id_alone",
        ),
        guard(
            "in constant time, also of a key of the settings", "B6.constant-time",
            _CALLERS + "test_one_whole_comparison_is_made_whichever_key_matches",
        ),
        guard(
            "revoked and expired keys are refused", "B6.revoked-expired",
            _ISSUED + "test_a_revoked_key_is_refused_after_the_next_look",
            _ISSUED + "test_a_key_ends_when_it_expires_though_nothing_is_looked_at",
            _FRONTS + "test_an_issued_key_is_known_and_refused_on_every_front",
        ),
        guard(
            "a head that comes again is asked for its key", "B6.http-key-check",
            _OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
            _OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "unless it is one of the settings", "B6.settings-key",
            _OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
        ),
        guard(
            "and after other settings for any", "B6.http-settings",
            _OPENINGS + "test_what_is_known_of_a_head_ends_with_the_settings",
        ),
        guard(
            "over gRPC, too, a head that comes again is asked for its key", "B6.grpc-key-check",
            _GRPC_OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
            _GRPC_OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "what a caller may is not what another may", "B6.caller-terms",
            _GRPC_OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "nor with another model", "B6.model-terms",
            _GRPC_OPENINGS + "test_a_model_that_a_key_may_not_use_is_refused_each_time",
        ),
        guard(
            "what is known of a gRPC head ends with the settings", "B6.grpc-settings",
            _GRPC_OPENINGS + "test_what_is_known_of_a_head_ends_with_the_settings",
        ),
        guard(
            "also for the stream that it opened", "B6.stream-settings",
            "unit/fronts/test_grpc_stream.py::"
            "test_a_key_that_is_taken_out_is_refused_within_the_stream_that_it_opened",
        ),
        guard(
            "and for a call whose message came later", "B6.late-message",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_comes_to_the_settings_of_the_moment_when_it_is_whole",
        ),
        guard(
            "what was seen counts for five seconds", "B6.store-age",
            _ISSUED + "test_a_key_that_nobody_could_look_at_for_five_seconds_is_not_accepted",
            _ISSUED
            + "test_a_store_that_cannot_be_read_lets_nobody_in_for_longer_than_five_seconds",
        ),
        guard(
            "from the beginning of the look", "B6.age-start",
            _ISSUED + "test_a_look_counts_from_when_it_began",
        ),
        guard(
            "a file in the place of the store is noticed", "B6.store-identity",
            _ISSUED + "test_a_store_that_another_file_took_the_place_of_is_read_anew",
        ),
        guard(
            "each call of an open stream is asked for its key", "B6.stream-key-check",
            _FRONTS + "test_a_key_that_is_revoked_ends_with_the_next_call_of_an_open_stream",
        ),
        guard(
            "a key with a wrong check is none", "B6.key-checksum",
            _FORM + "test_a_key_with_one_wrong_character_is_none",
        ),
        guard(
            "a model that a key may not use", "B6.model-scope",
            _ALIKE,
        ),
        guard(
            "a priority that a key may not use", "B6.priority-scope",
            _ALIKE,
        ),
        guard(
            "limits are asked", "B6.limit-check",
            _FRONTS + "test_every_front_refuses_what_is_over_a_limit_alike",
            _PIPELINE + "test_a_caller_who_leaves_gives_its_place_back",
        ),
        guard(
            "and given back", "B6.limit-release",
            "properties/test_everything_is_given_back.py::"
            "test_kills_at_every_await_point_leave_nothing",
            _PIPELINE + "test_a_call_that_has_ended_holds_nothing_any_more",
            _PIPELINE + "test_a_caller_who_leaves_gives_its_place_back",
        ),
        guard(
            "once", "B6.single-release",
            _LIMITS + "test_a_place_is_given_back_once",
        ),
        guard(
            "of requests", "B6.request-limit",
            _LIMITS + "test_a_key_makes_as_many_requests_in_a_minute_as_it_may",
            _LIMITS + "test_no_order_of_calls_gets_more_than_the_limits",
        ),
        guard(
            "of tokens", "B6.token-limit",
            _LIMITS + "test_calls_under_way_count_with_what_they_may_use",
        ),
        guard(
            "of calls at once", "B6.concurrency-limit",
            _LIMITS + "test_the_keys_of_a_tenant_share_what_it_may",
            _LIMITS + "test_no_order_of_calls_gets_more_than_the_limits",
        ),
        guard(
            "labels of tenants are so many and no more", "B6.tenant-labels",
            "unit/test_series.py::"
            "test_a_label_has_a_thousand_values_and_the_rest_is_other_with_nothing_lost",
        ),
        *_OF_TOKENS,
    ),
    also=(
        "unit/callers/test_keys_command.py::"
        "test_a_gateway_that_runs_refuses_a_revoked_key_within_five_seconds",
    ),
)  # fmt: skip

_OPS = "unit/fronts/test_ops.py::"

B9 = Behaviour(
    "B9",
    "A caller sees the costs of its own tenant and the models that it may use; what names other "
    "tenants is for operators.",
    (
        guard(
            "its costs are those of its tenant", "B9.own-costs",
            _OPS + "test_a_caller_sees_the_costs_of_its_tenant_and_an_operator_all",
        ),
        guard(
            "another tenant's are refused", "B9.foreign-tenant",
            _OPS + "test_a_caller_that_asks_for_another_tenants_costs_is_refused",
        ),
        guard(
            "no refusal names another", "B9.refusal-names",
            _OPS + "test_a_tenant_without_costs_learns_of_no_other",
        ),
        guard(
            "nor do the metrics", "B9.metric-names",
            _OPS + "test_the_metrics_name_tenants_to_operators_alone",
        ),
        guard(
            "the status names no model that is not its own", "B9.status-models",
            _OPS + "test_the_status_names_no_model_that_a_key_may_not_use",
        ),
    ),
    also=(
        "scenarios/test_who_may.py::"
        "test_tenants_see_their_own_costs_and_an_operator_those_of_all",
    ),
)  # fmt: skip

CALLERS = (B6, M5)
SEEING = (B9,)
