"""Reading calls on the way that most of them take."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard
from tests.behaviours.taint import C18

_JSON = "unit/test_strictjson.py::"
_C = "unit/classify/"
_EVIDENCE = _C + "test_evidence.py::"
_NOW = _C + "test_classify_now.py::"
_EXTRACT = _C + "test_classify_extract.py::"
_PUBLIC = "unit/test_public_models.py::"

C13 = Behaviour(
    "C13",
    "A body is taken as the fast parser reads it only where that is all that it says: no key "
    "twice, no number changed, no deeper than the cap.",
    (
        guard(
            "a key that stands twice",
            "C13.duplicate-key",
            _JSON + "test_a_key_twice_is_seen_among_escaped_quotation_marks",
            _JSON + "test_a_body_that_two_parsers_could_read_apart_is_refused",
        ),
        guard(
            "quotation marks within strings",
            "C13.quoted-strings",
            _JSON + "test_a_key_twice_is_seen_among_escaped_quotation_marks",
        ),
        guard(
            "an integer that a float cannot hold",
            "C13.float-exact",
            _JSON + "test_what_json_says_is_read_as_it_stands",
        ),
        guard(
            "the depth",
            "C13.depth-bound",
            _JSON + "test_a_body_that_two_parsers_could_read_apart_is_refused",
        ),
    ),
    also=(
        _JSON + "test_the_fast_way_reads_what_the_wary_one_reads",
        _JSON + "test_the_fast_way_refuses_what_the_wary_one_refuses",
    ),
)

C14 = Behaviour(
    "C14",
    "A verdict that is given without waiting is the one that a scan would give: what proves that a "
    "call restricts is found by a scan too, and restricts this caller; only the gate and a scan "
    "clear one.",
    (
        guard(
            "types that restrict the caller",
            "C14.caller-types",
            _EVIDENCE + "test_only_what_restricts_this_caller_is_proof",
        ),
        guard(
            "recognizers that the scanner runs",
            "C14.scanned-types",
            _EVIDENCE + "test_what_the_scanner_does_not_look_for_is_no_proof",
        ),
        guard(
            "values that the operator allows",
            "C14.allowlist",
            _EVIDENCE + "test_a_value_that_the_operator_allows_is_no_proof",
        ),
        guard(
            "check digits",
            "C14.check-digits",
            _EVIDENCE + "test_what_only_looks_alike_is_no_proof",
        ),
        guard(
            "and a country's own form of an account number",
            "C14.account-form",
            _EVIDENCE + "test_account_numbers_are_those_of_the_registry",
        ),
        guard(
            "the profile of the call, not of the one before",
            "C14.profile-identity",
            _EVIDENCE + "test_only_what_restricts_this_caller_is_proof",
        ),
        guard(
            "a look that was begun is of its call",
            "C14.request-identity",
            _NOW + "test_a_look_that_was_begun_is_not_another_call_s",
        ),
        guard(
            "a long text does not hold up the loop",
            "C14.text-offload",
            _NOW + "test_text_that_would_hold_up_the_loop_goes_to_a_worker",
        ),
        guard(
            "an error restricts",
            "C14.error-restricts",
            _NOW + "test_an_error_restricts",
        ),
    ),
    also=(
        _EVIDENCE + "test_whatever_is_proven_a_scan_finds",
        _C + "test_classify_extract.py::test_all_of_a_document_is_read_in_its_order",
    ),
)

C15 = Behaviour(
    "C15",
    "How a conversation begins is not looked at again where all of it was clear for the same "
    "tenant and policy; what follows is judged with the end of what stands before it.",
    (
        guard(
            "the end of what stands before",
            "C15.prefix-overlap",
            _NOW + "test_a_value_across_the_end_of_a_beginning_is_found",
        ),
        guard(
            "all of the text is in the digest",
            "C15.digest-text",
            _NOW + "test_a_beginning_that_was_changed_is_another",
        ),
        guard(
            "so is the policy",
            "C15.digest-policy",
            _NOW + "test_a_beginning_is_its_tenant_s_and_its_policy_s",
        ),
        guard(
            "only what is clear is kept",
            "C15.clear-only",
            _NOW + "test_a_beginning_that_restricts_is_not_kept",
        ),
    ),
    also=(_NOW + "test_a_remembered_verdict_is_the_one_without_memory",),
)

C16 = Behaviour(
    "C16",
    "A call goes out unread only to a model that the operator declares public, with a reason that "
    "is told; labels, taints, and what a key adds to what restricts win over that.",
    (
        guard(
            "a reason",
            "C16.public-reason",
            _PUBLIC + "test_what_contradicts_it_is_refused",
        ),
        guard(
            "no class of tensors that contradicts",
            "C16.tensors-conflict",
            _PUBLIC + "test_what_contradicts_it_is_refused",
        ),
        guard(
            "labels and taints",
            "C16.label-taint",
            _NOW + "test_a_label_a_taint_and_a_tightening_win_over_it",
        ),
        guard(
            "what a key adds",
            "C16.key-floor",
            _NOW + "test_a_label_a_taint_and_a_tightening_win_over_it",
        ),
        guard(
            "its record says that nothing was looked for",
            "C16.record-unscanned",
            _PUBLIC + "test_its_calls_may_leave_and_their_records_say_that_nothing_was_looked_for",
        ),
        guard(
            "check names it",
            "C16.check-report",
            _PUBLIC + "test_check_names_it_with_its_reason",
        ),
    ),
)

C17 = Behaviour(
    "C17",
    "A call with more text than may be read is restricted, wherever the text stands.",
    (
        guard(
            "the cap on bytes",
            "C17.byte-cap",
            _EXTRACT + "test_a_call_may_hold_so_many_bytes_and_no_more",
        ),
    ),
)

CLASSIFICATION = (C13, C14, C15, C16, C17, C18)
