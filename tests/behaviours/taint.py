"""What stays because of what came before it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_TAINT = "unit/classify/test_classify_taint.py::"
_REMEMBERING = "unit/classify/test_classify_remembering.py::"
_NOW = "unit/classify/test_classify_now.py::"
_MARKS = "unit/workers/test_marks.py::"

C18 = Behaviour(
    "C18",
    "What goes on from a restricted call is restricted, in whichever field and for whichever "
    "model, whether that call left with surrogates or stayed; and a clear conversation is not, "
    "however many restricted ones there are.",
    (
        guard(
            "every field is a conversation's",
            "classify/turns.py",
            "    for name, value in payload.document.items():\n"
            "        talks.field(name, value, 0)\n",
            "    for name in ('messages', 'input'):\n"
            "        if name in payload.document:\n"
            "            talks.field(name, payload.document[name], 0)\n"
            "            break\n",
            _TAINT + "test_a_conversation_is_tainted_in_whichever_field_it_stands",
        ),
        guard(
            "more than are looked at",
            "classify/taint.py",
            "if standing == DOUBTFUL or not talks.whole:",
            "if standing == DOUBTFUL:",
            _TAINT + "test_a_call_with_more_conversations_than_are_looked_at_is_no_way_out",
        ),
        guard(
            "a doubt is not remembered",
            "classify/taint.py",
            "        if reason == TAINT_LOST or (",
            "        if (",
            _TAINT + "test_clear_conversations_never_fill_the_memory",
        ),
        guard(
            "one mark for a conversation",
            "classify/taint.py",
            "        if reason == TAINTED and self._renewed(request):\n            return\n",
            "",
            _TAINT + "test_a_long_conversation_has_one_mark",
        ),
        guard(
            "what has no room fades",
            "classify/taint.py",
            "            until_s = self._faded.add(lost.key, lost.expires_s)\n",
            "            until_s = 0.0\n",
            _TAINT + "test_what_has_no_room_any_more_is_tainted_and_nothing_else_is",
        ),
        guard(
            "a filter that is over is emptied",
            "classify/faded.py",
            "            self._memory[begin : begin + self._bytes] = bytes(self._bytes)\n",
            "",
            "unit/classify/test_faded.py::test_filters_that_are_over_are_used_again",
        ),
        guard(
            "surrogates need the policy that found what they stand for",
            "classify/taint.py",
            "        return self._marks.get(request.tenant, under) == MASKABLE\n",
            "        return True\n",
            _TAINT + "test_what_may_leave_with_surrogates_taints_for_whoever_has_none",
        ),
        guard(
            "the larger standing stands",
            "classify/taint.py",
            "        standing = max(standing, self._shelves.get(tenant, digest) or NOT_MARKED)\n",
            "",
            _TAINT + "test_another_reason_wins_over_surrogates",
        ),
        guard(
            "and at all workers",
            "workers/marks.py",
            "                standing = max(standing, of >> _STANDING)\n",
            "                pass\n",
            _MARKS + "test_the_larger_standing_stands_at_all_workers",
        ),
        guard(
            "what is restricted by what came before leaves with surrogates or not at all",
            "classify/classifier.py",
            "if clear and complete and request.pseudonymise and self._stays_unmasked(request):",
            "if False:",
            _REMEMBERING + "test_a_conversation_that_may_be_masked_leaves_masked_or_not_at_all",
        ),
        guard(
            "and at the door",
            "classify/classifier.py",
            'if reason == "clear" and request.pseudonymise and self._stays_unmasked(request):',
            "if False:",
            _NOW + "test_what_came_before_keeps_it_also_when_its_names_have_been_looked_for",
        ),
        guard(
            "a doubt ends when what could not be written is",
            "workers/marks.py",
            "        _MOMENT.pack_into(self._bytes, self._own, self._lost_until_s)\n",
            "",
            _MARKS + "test_a_mark_that_could_not_be_written_is_written_later_and_ends_the_doubt",
        ),
        guard(
            "and not before",
            "workers/marks.py",
            "        self._lost_until_s = self._moment(self._own)",
            "        self._lost_until_s = 0.0",
            _MARKS + "test_the_doubt_of_a_worker_that_died_with_its_mark_stays",
        ),
    ),
    also=(
        "scenarios/test_conversations.py::test_a_field_beside_its_input_hides_no_conversation",
        "scenarios/test_pseudonyms.py::test_what_may_leave_with_surrogates_taints_where_there_are_none",
        "scenarios/test_pseudonyms.py::test_turns_with_surrogates_leave_one_after_the_other",
    ),
)
