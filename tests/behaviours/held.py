"""What is held of answers and bodies, and how long that keeps others waiting."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_ANSWERS = "unit/backends/test_held_answers.py::"
_TAKERS = "unit/fronts/test_slow_takers.py::"
_TEXT = "unit/pseudonyms/test_json_text.py::"
_REST = "unit/oip/test_rest_reply_bounds.py::"
_DISPATCH = "unit/test_dispatch.py::"

A9 = Behaviour(
    "A9",
    "What endpoints answer is bounded for each answer, for each caller and for all, until its "
    "caller has taken it; so are bodies that do not come whole. Large ones hold up no other call.",
    (
        guard(
            "a caller holds no more than is left free", "held_bytes.py",
            "        if its > self.most_bytes - held:\n", "        if held > self.most_bytes:\n",
            _ANSWERS + "test_a_caller_holds_no_more_than_is_left_free",
            _ANSWERS + "test_one_caller_cannot_multiply_the_bound_and_others_find_room",
        ),
        guard(
            "a whole answer has a bound", "backends/connection.py",
            "        if size > self._max_body_bytes:\n", "        if False:\n",
            _ANSWERS + "test_an_endless_answer_is_cut_at_the_bound_and_held_by_nobody",
        ),
        guard(
            "an answer says by its head that it is too large", "backends/connection.py",
            "        if not self._streamed and _is_over(", "        if False and _is_over(",
            _ANSWERS + "test_an_answer_that_is_announced_too_large_is_refused_by_its_head",
        ),
        guard(
            "what was given up is held no more", "backends/connection.py",
            "            held.hold(self, 0)\n", "            pass\n",
            _ANSWERS + "test_an_answer_that_is_given_up_is_held_no_more",
        ),
        guard(
            "small pieces of an answer are joined", "backends/connection.py",
            "        if len(fresh) > 1:\n", "        if False:\n",
            _ANSWERS + "test_small_chunks_are_held_in_little_more_than_they_measure",
        ),
        guard(
            "an event that has no end is counted", "backends/openai.py",
            "        if held.hold(self, size if self._counts else 0):\n", "        if True:\n",
            _ANSWERS + "test_an_event_without_end_is_of_the_budget",
        ),
        guard(
            "large answers are not parsed", "backends/openai.py",
            "    if len(data) > READ_BYTES:\n", "    if False:\n",
            _ANSWERS + "test_a_large_answer_goes_on_as_it_came_and_is_counted",
        ),
        guard(
            "they are read in a thread", "backends/wire.py",
            "                if not streamed and connection.is_large:\n",
            "                connection.join()\n                if False:\n",
            _ANSWERS + "test_a_large_answer_is_read_in_a_thread_and_its_connection_kept",
        ),
        guard(
            "answers of gRPC are counted", "http2/client.py",
            "pieces.size > UNCOUNTED_BYTES and not held.hold(call, pieces.size):\n", "False:\n",
            _ANSWERS + "test_answers_of_grpc_are_of_the_same_budget",
        ),
        guard(
            "an answer that finds no room is asked for nowhere else", "dispatch.py",
            "UpstreamRefused | DeadlineExceeded | AnswersFull",
            "UpstreamRefused | DeadlineExceeded",
            _DISPATCH + "test_an_answer_that_finds_no_room_is_asked_for_nowhere_else",
        ),
        guard(
            "who takes an answer slowly holds it", "http/exchange.py",
            "            if not line.put(view[at : at + _PART_BYTES]):\n",
            "            if not line.put(view[at : at + _PART_BYTES]) and False:\n",
            _TAKERS + "test_an_answer_is_held_until_its_caller_has_taken_it",
            _TAKERS + "test_who_takes_nothing_of_an_answer_is_gone",
        ),
        guard(
            "over gRPC, too", "fronts/grpc_server.py",
            "            await exchange.taken(_STALL_S)\n", "            pass\n",
            _TAKERS + "test_an_answer_of_grpc_is_held_until_its_caller_has_taken_it",
            _TAKERS + "test_who_takes_nothing_of_an_answer_of_grpc_is_reset",
        ),
        guard(
            "an answer that was taken is held no more", "fronts/http.py",
            "                held.close()\n", "                pass\n",
            _TAKERS + "test_an_answer_is_held_until_its_caller_has_taken_it",
        ),
        guard(
            "bodies of HTTP/1.1 are counted", "http/exchange.py",
            "        incoming.count(len(data))\n", "",
            _TAKERS + "test_bodies_that_do_not_come_whole_have_one_budget",
        ),
        guard(
            "and given back", "http/exchange.py",
            "                incoming.share.close()\n", "",
            _TAKERS + "test_bodies_that_do_not_come_whole_have_one_budget",
        ),
        guard(
            "so is what they are inflated to", "fronts/http.py",
            "encoding, most_bytes, share)", "encoding, most_bytes)",
            _TAKERS + "test_what_a_body_is_inflated_to_is_of_that_budget",
        ),
        guard(
            "a body has its time to come", "fronts/http.py",
            "        async with asyncio.timeout(reading_s):\n",
            "        async with asyncio.timeout(1e5):\n",
            _TAKERS + "test_a_body_that_does_not_come_is_waited_for_no_longer_than_its_call",
        ),
        guard(
            "long strings are restored in pieces", "pseudonyms/json_text.py",
            "        if end - begin <= _AT_ONCE:\n", "        if True:\n",
            _TEXT + "test_no_long_string_is_restored_in_one",
        ),
        guard(
            "a restoring ends when nobody waits for it", "pseudonyms/json_text.py",
            "        if stopped():\n            raise Stopped\n        begin,", "        begin,",
            _TEXT + "test_a_large_answer_is_restored_beside_the_loop_until_nobody_waits",
        ),
        guard(
            "what is left of surrogates is counted as it comes", "pseudonyms/restoring.py",
            "        if self._rest_size > 8 * _LOOKED_OVER:\n", "        if False:\n",
            _TEXT + "test_a_stream_without_end_leaves_nothing_behind",
        ),
        guard(
            "JSON that is read for callers of gRPC has bounds", "oip/rest_reply.py",
            "    if not strictjson.is_within(text, strictjson.BOUNDS):\n", "    if False:\n",
            _REST + "test_more_json_than_can_be_read_is_refused_unread",
        ),
    ),
)  # fmt: skip

HELD = (A9,)
