"""Who calls, what it may, and how much."""

from __future__ import annotations

from tests.behaviours import Behaviour, Guard, guard
from tests.simulation.mutations import Change

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
            "who is not known is refused", "callers/__init__.py",
            "            raise self._refusal(kind, exc.why) from None\n",
            "            return ANYONE\n",
            _ALIKE, _CALLERS + "test_whoever_has_no_known_key_is_refused",
        ),
        guard(
            "and who sends nothing", "callers/__init__.py",
            "            self._refusal_told(\"certificate\" if names else \"none\", \"absent\")\n",
            "            return ANYONE\n",
            _ALIKE,
        ),
        guard(
            "a store without keys is not development mode", "callers/__init__.py",
            "not keys and issued is None and tokens", "not keys and tokens",
            _ISSUED + "test_an_empty_store_is_not_development_mode",
        ),
        guard(
            "development mode stays on the loopback", "config/settings.py",
            "if self.anybody and not listen.exposed and not premises.is_loopback(listen.host):",
            "if False:",
            "unit/test_config_callers.py::"
            "test_without_credentials_only_the_loopback_is_listened_on",
        ),
        guard(
            "the floors of a certificate hold beside a key", "callers/__init__.py",
            "return found if peer is None else found.within(peer)", "return found",
            _TLS + "test_a_key_says_who_calls_and_the_floors_of_the_certificate_hold_too",
        ),
        guard(
            "a certificate that names two names nobody", "callers/certificates.py",
            "return found[0] if len(found) == 1 else None", "return found[0] if found else None",
            _NAMES,
        ),
        guard(
            "a key that adds what nobody looks for stays", "callers/issued.py",
            "        if not self.looked_for(caller.tightening):\n"
            "            return replace(caller, zones=ONPREM_ONLY)\n",
            "",
            _ISSUED + "test_a_key_that_restricts_what_nobody_looks_for_stays_on_the_premises",
        ),
        guard(
            "an issuer names the tenants that it may", "callers/tokens.py",
            "if settings.tenants is not None and tenant not in settings.tenants:", "if False:",
            _TOKENS + "test_an_issuer_may_be_kept_to_some_tenants",
        ),
        guard(
            "and grants the models of a token's scopes", "callers/tokens.py",
            "return found.within(Caller(tenant, models=granted, pseudonymise=True))",
            "return found",
            _TOKENS + "test_scopes_grant_models",
        ),
        guard(
            "clients show a certificate of the authority, over HTTP and gRPC", "tls.py",
            "        context.verify_mode = ssl.CERT_REQUIRED\n", "",
            _TLS + "test_who_connects_must_show_a_certificate_of_the_authority",
        ),
        guard(
            "gRPC has the listener's TLS", "fronts/grpc.py",
            'None if self._tls is None else listening(self._tls, speaks="h2")', "None",
            _TLS + "test_both_listeners_speak_tls_and_nothing_else",
            _TLS + "test_who_connects_must_show_a_certificate_of_the_authority",
        ),
        Guard(
            "a session does not get in what a handshake would refuse",
            (
                Change("tls.py", "        context.options |= ssl.OP_NO_TICKET\n", ""),
                Change("tls.py", "        context.num_tickets = 0\n", ""),
            ),
            (
                _TLS + "test_clients_of_an_authority_that_was_taken_back_are_not_let_in_again",
            ),
        ),
        guard(
            "each zone has its own certificate", "config/endpoints.py",
            "zone = self.onprem if endpoint.zone is Zone.ONPREM else self.cloud",
            "zone = self.onprem",
            _ENDPOINT + "test_the_cloud_never_sees_the_certificate_of_the_premises",
        ),
    ),
)  # fmt: skip

_OF_TOKENS = (
    guard(
        "the issuer's algorithms and no others", "callers/jws.py",
        "        if token.algorithm not in algorithms:\n"
        "            raise NotAccepted(\"algorithm\")\n", "",
        _JWS + "test_an_algorithm_that_its_issuer_does_not_use_is_not_believed",
    ),
    guard(
        "no keys and addresses of keys out of a token", "callers/jws.py",
        "if not _NEVER.isdisjoint(header) or", "if",
        _FORGED,
    ),
    guard(
        "one spelling of base64", "callers/jws.py",
        "    if base64.urlsafe_b64encode(found).rstrip(b\"=\").decode() != part:\n"
        "        raise NotAccepted(\"malformed\")\n", "",
        _JWS + "test_a_signature_has_one_spelling",
    ),
    guard(
        "the key's own algorithm", "callers/jws.py",
        "    if entry.get(\"alg\") not in (None, algorithm):\n        return False\n", "",
        _UNFIT,
    ),
    guard(
        "the key's use", "callers/jws.py",
        'entry.get("use", "sig") != "sig" or', "False or",
        _UNFIT,
    ),
    guard(
        "no private key", "callers/jws.py", ' or "d" in entry:', ":", _UNFIT,
    ),
    guard(
        "no weak key", "callers/jws.py",
        "    return wrong_size or numbers.e < 3 or numbers.e % 2 == 0 or _roca(numbers.n)\n",
        "    return False\n",
        _UNFIT,
    ),
    guard(
        "one key that fits", "callers/jws.py", "if len(fit) != 1:", "if not fit:",
        _JWS + "test_a_token_without_a_key_id_needs_one_key_that_fits",
    ),
    guard(
        "names that stand twice", "callers/jws.py",
        "            return strictjson.load_object(self.payload)\n",
        "            import json; return json.loads(self.payload)\n",
        _JWS + "test_claims_that_stand_twice_are_not_believed",
    ),
    guard(
        "the audience", "callers/tokens.py",
        '            raise NotAccepted("audience")\n', "            pass\n",
        _CLAIMS,
    ),
    guard(
        "the end", "callers/tokens.py",
        "        if now_s >= expires_s + settings.leeway_s:\n", "        if False:\n",
        _CLAIMS,
    ),
    guard(
        "also of a token that is remembered", "callers/tokens.py",
        " and self._clocks.wall_s() < known.expires_s:", ":",
        _TOKENS + "test_a_token_that_was_verified_is_refused_once_it_expires",
    ),
    guard(
        "and the keys that it was verified with", "callers/tokens.py",
        "known.issuer.keys.current is known.by and", "known.issuer.keys.current and",
        _TOKENS + "test_a_key_that_its_issuer_took_back_is_refused_with_the_next_fetch",
    ),
    guard(
        "the beginning", "callers/tokens.py",
        '                raise NotAccepted("not_yet_valid")\n', "                pass\n",
        _CLAIMS,
    ),
    guard(
        "old keys of an issuer that is down", "callers/issuer_keys.py",
        "if self._clock() - self._fetched.at_s > self._settings.stale_s:", "if False:",
        _TOKENS + "test_while_the_issuer_is_down_its_keys_count_for_so_long_and_no_longer",
    ),
    guard(
        "a flood of made-up keys is one fetch", "callers/issuer_keys.py",
        "        if self._clock() - self._tried_s < self._settings.refetch_s:\n"
        "            return False\n", "",
        _TOKENS + "test_a_new_key_of_the_issuer_is_fetched_when_a_token_comes_with_it",
    ),
    guard(
        "an endless answer", "callers/issuer_keys.py",
        "                if size > MOST_BYTES:\n", "                if False:\n",
        _TOKENS + "test_an_answer_that_is_no_set_of_keys_changes_nothing",
    ),
    guard(
        "no proxy", "callers/issuer_keys.py", "trust_env=False, ", "",
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
            "the secret is compared", "callers/issued.py",
            "        if not same:\n            raise NotAccepted(\"wrong_secret\")\n", "",
            _ISSUED + "test_the_secret_counts_and_not_the_id_alone",
        ),
        guard(
            "in constant time, also of a key of the settings", "callers/configured.py",
            "        same = self._same(_NOBODY if known is None else known[0], given)\n",
            "        same = known is not None and known[0] == given\n",
            _CALLERS + "test_one_whole_comparison_is_made_whichever_key_matches",
        ),
        guard(
            "revoked and expired keys are refused", "callers/issued.py",
            "        if (why := record.why_not(self._clocks.wall_s())) is not None:\n"
            "            raise NotAccepted(why)\n",
            "",
            _ISSUED + "test_a_revoked_key_is_refused_after_the_next_look",
            _ISSUED + "test_a_key_ends_when_it_expires_though_nothing_is_looked_at",
            _FRONTS + "test_an_issued_key_is_known_and_refused_on_every_front",
        ),
        guard(
            "a head that comes again is asked for its key", "fronts/http.py",
            "(not opening.lasting and caller_of(exchange, services) is not opening.caller)",
            "False",
            _OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
            _OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "unless it is one of the settings", "callers/__init__.py",
            "self.lasting = self._only_keys", "self.lasting = True",
            _OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
        ),
        guard(
            "and after other settings for any", "fronts/http.py",
            "                or opening.services is not services\n", "",
            _OPENINGS + "test_what_is_known_of_a_head_ends_with_the_settings",
        ),
        guard(
            "over gRPC, too, a head that comes again is asked for its key", "fronts/grpc_calls.py",
            "    if services is opening.services and services.callers.lasting:\n",
            "    if services is opening.services:\n",
            _GRPC_OPENINGS + "test_an_issued_key_is_looked_at_for_each_call",
            _GRPC_OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "what a caller may is not what another may", "fronts/grpc_calls.py",
            "or terms.model is not model or self._terms_of is not caller:",
            "or terms.model is not model:",
            _GRPC_OPENINGS + "test_a_caller_that_has_become_another_has_its_own_terms",
        ),
        guard(
            "nor with another model", "fronts/grpc_calls.py",
            "or terms.model is not model or self._terms_of is not caller:",
            "or self._terms_of is not caller:",
            _GRPC_OPENINGS + "test_a_model_that_a_key_may_not_use_is_refused_each_time",
        ),
        guard(
            "what is known of a gRPC head ends with the settings", "fronts/grpc_calls.py",
            "    if opening is None or opening.services is not services:\n",
            "    if opening is None:\n",
            _GRPC_OPENINGS + "test_what_is_known_of_a_head_ends_with_the_settings",
        ),
        guard(
            "also for the stream that it opened", "fronts/grpc_calls.py",
            "        if services is opening.services and opening.caller is not None:\n",
            "        if opening.caller is not None:\n",
            "unit/fronts/test_grpc_stream.py::"
            "test_a_key_that_is_taken_out_is_refused_within_the_stream_that_it_opened",
        ),
        guard(
            "and for a call whose message came later", "fronts/grpc_calls.py",
            "        if admitted is not None and admitted[0] is services:\n",
            "        if admitted is not None:\n",
            "unit/fronts/test_grpc_front.py::"
            "test_a_call_comes_to_the_settings_of_the_moment_when_it_is_whole",
        ),
        guard(
            "what was seen counts for five seconds", "callers/issued.py",
            "if self._clocks.monotonic_s() - self._seen_s > TRUSTED_S:", "if False:",
            _ISSUED + "test_a_key_that_nobody_could_look_at_for_five_seconds_is_not_accepted",
            _ISSUED
            + "test_a_store_that_cannot_be_read_lets_nobody_in_for_longer_than_five_seconds",
        ),
        guard(
            "from the beginning of the look", "callers/issued.py",
            "        self._seen_s = began_s\n",
            "        self._seen_s = self._clocks.monotonic_s()\n",
            _ISSUED + "test_a_look_counts_from_when_it_began",
        ),
        guard(
            "a file in the place of the store is noticed", "callers/key_store.py",
            "            self._close()  # another file has taken its place\n", "            pass\n",
            _ISSUED + "test_a_store_that_another_file_took_the_place_of_is_read_anew",
        ),
        guard(
            "each call of an open stream is asked for its key", "fronts/grpc_stream.py",
            "            self._head.caller(services),",
            "            self._caller if hasattr(self, '_caller') else "
            "setattr(self, '_caller', self._head.caller(services)) or self._caller,",
            _FRONTS + "test_a_key_that_is_revoked_ends_with_the_next_call_of_an_open_stream",
        ),
        guard(
            "a key with a wrong check is none", "callers/key_form.py",
            " or _check(key[:-_CHECK_LENGTH]) != key[-_CHECK_LENGTH:]", "",
            _FORM + "test_a_key_with_one_wrong_character_is_none",
        ),
        guard(
            "a model that a key may not use", "fronts/intake.py",
            "    if caller.models is not None and model.name not in caller.models:\n",
            "    if False:\n", _ALIKE,
        ),
        guard(
            "a priority that a key may not use", "fronts/intake.py",
            "priority = max(caller.most_urgent, _priority(", "priority = max(0, _priority(",
            _ALIKE,
        ),
        guard(
            "limits are asked", "pipeline.py",
            "        share = self._limits.enter(request)\n",
            "        share = self._limits.enter(replace(request, quotas=()))\n",
            _FRONTS + "test_every_front_refuses_what_is_over_a_limit_alike",
            _PIPELINE + "test_a_caller_who_leaves_gives_its_place_back",
        ),
        guard(
            "and given back", "pipeline.py",
            "        account.holds(lambda: share.settle(account.total_tokens, "
            "bool(account.attempts)))\n",
            "",
            "properties/test_everything_is_given_back.py::"
            "test_over_a_thousand_kills_at_every_await_point_leave_nothing",
            _PIPELINE + "test_a_call_that_has_ended_holds_nothing_any_more",
            _PIPELINE + "test_a_caller_who_leaves_gives_its_place_back",
        ),
        guard(
            "once", "limits/__init__.py",
            "        if self.settled:\n            return\n", "",
            _LIMITS + "test_a_place_is_given_back_once",
        ),
        guard(
            "of requests", "limits/__init__.py",
            "if self.requests is not None and (wait_s := self.requests.short_s(1.0, now_s)) > 0:",
            "if False:",
            _LIMITS + "test_a_key_makes_as_many_requests_in_a_minute_as_it_may",
            _LIMITS + "test_no_order_of_calls_gets_more_than_the_limits",
        ),
        guard(
            "of tokens", "limits/__init__.py",
            '            return ("tokens", wait_s) if wait_s > 0 else None\n',
            "            return None\n",
            _LIMITS + "test_calls_under_way_count_with_what_they_may_use",
        ),
        guard(
            "of calls at once", "limits/__init__.py",
            "if most is not None and self.inside >= most:", "if False:",
            _LIMITS + "test_the_keys_of_a_tenant_share_what_it_may",
            _LIMITS + "test_no_order_of_calls_gets_more_than_the_limits",
        ),
        guard(
            "labels of tenants are so many and no more", "accounting/series.py",
            "len(had) >= MOST_VALUES or ", "",
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
            "its costs are those of its tenant", "fronts/ops.py",
            "            question = replace(question, tenant=own)\n", "",
            _OPS + "test_a_caller_sees_the_costs_of_its_tenant_and_an_operator_all",
        ),
        guard(
            "another tenant's are refused", "fronts/ops.py",
            "            if question.tenant not in (None, own):\n", "            if False:\n",
            _OPS + "test_a_caller_that_asks_for_another_tenants_costs_is_refused",
        ),
        guard(
            "no refusal names another", "fronts/ops.py",
            "            why = str(bad) if operator else ", "            why = str(bad) or ",
            _OPS + "test_a_tenant_without_costs_learns_of_no_other",
        ),
        guard(
            "nor do the metrics", "accounting/series.py",
            '            if not any("tenant" in sample.labels for sample in family.samples):\n',
            "            if True:\n",
            _OPS + "test_the_metrics_name_tenants_to_operators_alone",
        ),
        guard(
            "the status names no model that is not its own", "fronts/ops.py",
            '[name for name in status["models"] if caller.may_use(name)]', 'status["models"]',
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
