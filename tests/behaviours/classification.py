"""Reading calls on the way that most of them take."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard
from tests.behaviours.taint import C18

_JSON = "unit/test_strictjson.py::"
_ALIKE = "properties/test_alike_bodies.py::"
_C = "unit/classify/"
_EVIDENCE = _C + "test_evidence.py::"
_NOW = _C + "test_classify_now.py::"
_SHORT = _C + "test_classify_extract.py::"
_PUBLIC = "unit/test_public_models.py::"

C13 = Behaviour(
    "C13",
    "A body is taken as the fast parser reads it only where that is all that it says: no key "
    "twice, no number changed, no deeper than the cap.",
    (
        guard(
            "a key that stands twice",
            "strictjson.py",
            "    if marks != len(pieces) - 1:\n        return False\n",
            "",
            _JSON + "test_a_key_twice_is_seen_among_escaped_quotation_marks",
            _JSON + "test_a_body_that_two_parsers_could_read_apart_is_refused",
        ),
        guard(
            "quotation marks within strings",
            "strictjson.py",
            'if b"\\\\" in again and',
            "if False and",
            _JSON + "test_a_key_twice_is_seen_among_escaped_quotation_marks",
        ),
        guard(
            "an integer that a float cannot hold",
            "strictjson.py",
            'if _LONG_INTEGER in b"," + outside.translate(_SHAPES):',
            "if False:",
            _JSON + "test_what_json_says_is_read_as_it_stands",
        ),
        guard(
            "the depth",
            "strictjson.py",
            "    return not brackets\n",
            "    return True\n",
            _JSON + "test_a_body_that_two_parsers_could_read_apart_is_refused",
        ),
        guard(
            "the proof of which string it is that bodies differ in",
            "fronts/openai_alike.py",
            "            return bool(strictjson.load_object(body, self._most) == marked)\n",
            "            return True\n",
            _ALIKE + "test_what_is_known_of_a_body_says_what_the_body_says",
        ),
        guard(
            "what stands there instead of a string",
            "fronts/openai_alike.py",
            "            if type(said) is str:\n",
            "            if said is not None:\n",
            _ALIKE + "test_what_is_no_string_is_read_in_full",
        ),
        guard(
            "earlier messages, of which nothing is kept",
            "fronts/openai_alike.py",
            "any(role not in _OPENING for role in roles)",
            "False",
            _ALIKE + "test_nothing_is_kept_of_what_was_said",
        ),
        guard(
            "other texts, of which nothing is kept",
            "fronts/openai_alike.py",
            "    if not _SETTING.issuperset(map(type, settings)):\n",
            "    if False:\n",
            _ALIKE + "test_nothing_is_kept_of_what_was_said",
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
            "classify/evidence.py",
            "if kind.type in profile.types and kind.score >= profile.threshold",
            "if True",
            _EVIDENCE + "test_only_what_restricts_this_caller_is_proof",
        ),
        guard(
            "recognizers that the scanner runs",
            "classify/evidence.py",
            "tuple(kind for kind in _KINDS if kind.recognizer in recognizers)",
            "_KINDS",
            _EVIDENCE + "test_what_the_scanner_does_not_look_for_is_no_proof",
        ),
        guard(
            "values that the operator allows",
            "classify/evidence.py",
            " and value[:length] not in self._allowed",
            "",
            _EVIDENCE + "test_a_value_that_the_operator_allows_is_no_proof",
        ),
        guard(
            "check digits",
            "classify/evidence.py",
            "return len(value) if is_sure_card(value) else None",
            "return len(value)",
            _EVIDENCE + "test_what_only_looks_alike_is_no_proof",
        ),
        guard(
            "and a country's own form of an account number",
            "classify/evidence.py",
            "    if structure is None or not structure.fullmatch(number, 4):\n",
            "    if structure is None:\n",
            _EVIDENCE + "test_account_numbers_are_those_of_the_registry",
        ),
        guard(
            "the profile of the call, not of the one before",
            "classify/evidence.py",
            "if profile is not self._profile:",
            "if self._profile is None:",
            _EVIDENCE + "test_only_what_restricts_this_caller_is_proof",
        ),
        guard(
            "a look that was begun is of its call",
            "classify/classifier.py",
            "if begun is None or begun.request is not request:",
            "if begun is None:",
            _NOW + "test_a_look_that_was_begun_is_not_another_call_s",
        ),
        guard(
            "a long text does not hold up the loop",
            "classify/classifier.py",
            "if len(rest) <= _GATE_MOST:",
            "if True:",
            _NOW + "test_text_that_would_hold_up_the_loop_goes_to_a_worker",
        ),
        guard(
            "an error restricts",
            "classify/classifier.py",
            "return self._found(request, self._failed(request, failure), {}, started_s)",
            'return self._found(request, "clear", {}, started_s)',
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
            "classify/memory.py",
            'f"{_end_of(texts[:end])}{BETWEEN}{rest}" if rest else ""',
            "rest",
            _NOW + "test_a_value_across_the_end_of_a_beginning_is_found",
        ),
        guard(
            "all of the text is in the digest",
            "classify/memory.py",
            '                hasher.update(BETWEEN.join(block).encode("utf-8", "surrogatepass"))\n',
            "",
            _NOW + "test_a_beginning_that_was_changed_is_another",
        ),
        guard(
            "so is the policy",
            "classify/memory.py",
            "write(ready, scope.tenant, scope.policy, scope.detector)",
            "write(ready, scope.tenant, scope.detector)",
            _NOW + "test_a_beginning_is_its_tenant_s_and_its_policy_s",
        ),
        guard(
            "only what is clear is kept",
            "classify/classifier.py",
            "if not (restricted or counts) and begun.beginning is not None:",
            "if begun.beginning is not None:",
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
            "config/models.py",
            "        if not self.public_reason.strip():\n",
            "        if False:\n",
            _PUBLIC + "test_what_contradicts_it_is_refused",
        ),
        guard(
            "no class of tensors that contradicts",
            "config/models.py",
            'if self.tensors == "restricted" and "tensors" in self.model_fields_set:',
            "if False:",
            _PUBLIC + "test_what_contradicts_it_is_refused",
        ),
        guard(
            "labels and taints",
            "classify/classifier.py",
            "return self.taint.of(request) or PUBLIC_MODEL, _NOTHING",
            "return PUBLIC_MODEL, _NOTHING",
            _NOW + "test_a_label_a_taint_and_a_tightening_win_over_it",
        ),
        guard(
            "what a key adds",
            "classify/classifier.py",
            "if model.public and request.tightening == NOT_TIGHTENED:",
            "if model.public:",
            _NOW + "test_a_label_a_taint_and_a_tightening_win_over_it",
        ),
        guard(
            "its record says that nothing was looked for",
            "accounting/account.py",
            'return "nothing" if found.reason == PUBLIC_MODEL else ',
            "return ",
            _PUBLIC + "test_its_calls_may_leave_and_their_records_say_that_nothing_was_looked_for",
        ),
        guard(
            "check names it",
            "commands/check.py",
            "    for name, reason in public.items():\n",
            "    for name, reason in ():\n",
            _PUBLIC + "test_check_names_it_with_its_reason",
        ),
    ),
)

C17 = Behaviour(
    "C17",
    "A usual chat is read the short way only where that reads all that the walk over any document "
    "reads of it.",
    (
        guard(
            "a field that is no word of the protocol",
            "classify/extract.py",
            "    if not document.keys() <= PROTOCOL_WORDS:\n        return None\n",
            "",
            _SHORT + "test_the_short_way_reads_a_usual_chat_and_no_other",
        ),
        guard(
            "a list that is not of messages",
            "classify/extract.py",
            'if field != "messages" or len(value) > _MOST_MESSAGES:',
            "if len(value) > _MOST_MESSAGES:",
            _SHORT + "test_the_short_way_reads_a_usual_chat_and_no_other",
        ),
        guard(
            "a message that holds more",
            "classify/extract.py",
            "if type(message) is not dict or message.keys() != _WHO_SAYS_WHAT:",
            "if type(message) is not dict:",
            _SHORT + "test_the_short_way_reads_a_usual_chat_and_no_other",
        ),
        guard(
            "a content that is no string",
            "classify/extract.py",
            "return said if _STRINGS.issuperset(map(type, said)) else None",
            "return said",
            _SHORT + "test_the_short_way_reads_a_usual_chat_and_no_other",
        ),
        guard(
            "a number that may be a card's",
            "classify/extract.py",
            "            if not LEAST_SHORT < value < LEAST_LONG:\n                return None\n",
            "            pass\n",
            _SHORT + "test_the_short_way_reads_a_usual_chat_and_no_other",
        ),
        guard(
            "the cap on bytes",
            "classify/collect.py",
            "    if 4 * sum(map(len, texts)) > most_bytes and _bytes(texts) > most_bytes:\n"
            "        raise Unscannable(OVER_CAP)\n",
            "",
            _SHORT + "test_a_call_may_hold_so_many_bytes_and_no_more",
        ),
    ),
    also=(_SHORT + "test_the_usual_chat_is_read_as_the_walk_reads_it",),
)

CLASSIFICATION = (C13, C14, C15, C16, C17, C18)
