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
            "C18.conversation-fields",
            _TAINT + "test_a_conversation_is_tainted_in_whichever_field_it_stands",
        ),
        guard(
            "more than are looked at",
            "C18.conversation-cap",
            _TAINT + "test_a_call_with_more_conversations_than_are_looked_at_is_no_way_out",
        ),
        guard(
            "a doubt is not remembered",
            "C18.doubt-memory",
            _TAINT + "test_clear_conversations_never_fill_the_memory",
        ),
        guard(
            "one mark for a conversation",
            "C18.single-mark",
            _TAINT + "test_a_long_conversation_has_one_mark",
        ),
        guard(
            "what has no room fades",
            "C18.fading",
            _TAINT + "test_what_has_no_room_any_more_is_tainted_and_nothing_else_is",
        ),
        guard(
            "a filter that is over is emptied",
            "C18.filter-reset",
            "unit/classify/test_faded.py::test_filters_that_are_over_are_used_again",
        ),
        guard(
            "surrogates need the policy that found what they stand for",
            "C18.surrogate-policy",
            _TAINT + "test_what_may_leave_with_surrogates_taints_for_whoever_has_none",
        ),
        guard(
            "the larger standing stands",
            "C18.taint-precedence",
            _TAINT + "test_another_reason_wins_over_surrogates",
        ),
        guard(
            "and at all workers",
            "C18.shared-precedence",
            _MARKS + "test_the_larger_standing_stands_at_all_workers",
        ),
        guard(
            "what is restricted by what came before leaves with surrogates or not at all",
            "C18.masked-or-restricted",
            _REMEMBERING + "test_a_conversation_that_may_be_masked_leaves_masked_or_not_at_all",
        ),
        guard(
            "and at the door",
            "C18.door-unmasked",
            _NOW + "test_what_came_before_keeps_it_also_when_its_names_have_been_looked_for",
        ),
        guard(
            "a doubt ends when what could not be written is",
            "C18.lost-mark",
            _MARKS + "test_a_mark_that_could_not_be_written_is_written_later_and_ends_the_doubt",
        ),
        guard(
            "and not before",
            "C18.doubt-persists",
            _MARKS + "test_the_doubt_of_a_worker_that_died_with_its_mark_stays",
        ),
    ),
    also=(
        "scenarios/test_conversations.py::test_a_field_beside_its_input_hides_no_conversation",
        "scenarios/test_pseudonyms.py::test_what_may_leave_with_surrogates_taints_where_there_are_none",
        "scenarios/test_pseudonyms.py::test_turns_with_surrogates_leave_one_after_the_other",
    ),
)
