"""gRPC over our own HTTP/2, towards callers and servers that do not keep to it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_SERVER = "unit/http2/test_server.py::"
_CONNECTION = "unit/http2/test_connection.py::"
_CLIENT = "unit/http2/test_client.py::"
_HPACK = "unit/http2/test_hpack.py::"
_STREAM = "unit/fronts/test_grpc_stream.py::"

A8 = Behaviour(
    "A8",
    "What a gRPC caller or server can make the gateway hold and do is bounded, whatever frames it "
    "sends: floods, resets, heads and messages without end, windows that do not open. What is not "
    "the protocol ends its stream or its connection, and no call hangs on it.",
    (
        guard(
            "a head in pieces has an end", "http2/connection.py",
            "        if self._block_bytes > _BLOCK_BYTES or len(self._block) > _BLOCK_FRAMES:\n",
            "        if False:\n",
            _SERVER + "test_a_head_without_end_ends_its_connection",
        ),
        guard(
            "frames that carry no call are counted", "http2/connection.py",
            "        if now_s - self._controls_since_s < 1:\n", "        if False:\n",
            _SERVER + "test_a_flood_of_frames_that_carry_no_call_ends_its_connection",
        ),
        guard(
            "but windows may grow with what is sent", "http2/connection.py",
            "        if data or ended:\n            if self._controls > _MOST_IN_ADVANCE:\n",
            "        if data or ended:\n            if False:\n",
            _SERVER + "test_windows_that_grow_with_what_is_sent_are_no_flood",
        ),
        guard(
            "a call that was reset counts until its task has ended", "http2/server.py",
            "        busy = len(self.running) >= host.max_streams\n",
            "        busy = False\n",
            _SERVER + "test_a_call_that_was_reset_has_its_place_until_it_has_stopped",
        ),
        guard(
            "but one that was reset before its task began is none", "http2/server.py",
            "            if not self.begun:", "            if False:",
            _SERVER + "test_calls_that_are_reset_before_they_begin_leave_their_places_to_others",
        ),
        guard(
            "what calls bring is not saved up for a flood", "http2/connection.py",
            "            if self._controls > _MOST_IN_ADVANCE:\n"
            "                self._controls -= _CONTROLS_PER_FRAME\n        else:\n",
            "            self._controls -= _CONTROLS_PER_FRAME\n        else:\n",
            _CONNECTION + "test_what_calls_bring_is_not_saved_up_for_a_flood",
        ),
        guard(
            "so many resets and no more", "http2/server.py",
            "        if self._resets > _RESETS_PER_S:\n", "        if False:\n",
            _SERVER + "test_calls_that_are_reset_at_once_gain_nothing",
        ),
        guard(
            "requests that are not whole are bounded together", "http2/server.py",
            "        if self._held_bytes > self._most_held_bytes:\n", "        if False:\n",
            _SERVER + "test_requests_that_do_not_come_whole_are_bounded_all_together",
        ),
        guard(
            "and each of them", "http2/server.py",
            "            if exchange.got > most or declared + PREFIX_BYTES > most:\n",
            "            if False:\n",
            _SERVER + "test_a_message_that_says_that_it_is_too_large_is_refused_before_it_comes",
        ),
        guard(
            "a caller has the room that it was given", "http2/connection.py",
            "            if received > STREAM_WINDOW:\n",
            "            if False:\n",
            _SERVER + "test_a_caller_cannot_send_more_than_it_was_given_room_for",
        ),
        guard(
            "fields that count too much are not kept", "http2/hpack.py",
            "        return fields if left >= 0 else None\n", "        return fields\n",
            _HPACK + "test_fields_that_count_too_much_are_not_kept_but_their_table_is",
        ),
        guard(
            "a frame is bounded by its head", "http2/connection.py",
            "            if size > FRAME_BYTES:\n", "            if False:\n",
            _SERVER + "test_what_is_not_http2_ends_the_connection_with_its_code",
            _CONNECTION + "test_a_frame_is_too_long_by_its_head",
        ),
        guard(
            "nothing comes before the first SETTINGS, or within a head", "http2/connection.py",
            "            if self._only is not None and not self._is_due(kind, stream):\n"
            "                return\n", "",
            _SERVER + "test_what_is_not_http2_ends_the_connection_with_its_code",
            _CONNECTION + "test_nothing_is_taken_behind_the_end",
        ),
        guard(
            "an answer is bounded", "http2/client.py",
            "        if call.got > self._most_bytes + PREFIX_BYTES:\n", "        if False:\n",
            _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
        ),
        guard(
            "a connection that ends takes its calls with it", "http2/client.py",
            '        for call in calls:\n            _fail(call, "UNAVAILABLE", why)\n', "",
            _CLIENT + "test_a_connection_that_is_lost_takes_its_calls_with_it_"
            "and_the_next_gets_another",
        ),
        guard(
            "so does one whose server says nothing", "http2/client.py",
            "        self._watch(QUIET_S, PONG_S)\n", "",
            _CLIENT + "test_a_server_that_stops_answering_pings_is_gone",
        ),
        guard(
            "calls that the server never began are told", "http2/client.py",
            "call for call in self._streams.values() if call.id > last",
            "call for call in self._streams.values() if call.id < 0",
            _CLIENT + "test_a_server_that_goes_away_finishes_what_it_began",
        ),
        guard(
            "a call that is given up is reset", "backends/grpc_wire.py",
            "            connection.cancel(call)\n", "            pass\n",
            _CLIENT + "test_a_call_that_is_given_up_is_reset_at_once",
        ),
        guard(
            "an answer that waits for others holds no server up", "fronts/grpc_stream.py",
            "            held.append(frame)\n", "            await self._send(call, frame)\n",
            _STREAM
            + "test_answers_that_wait_for_those_before_them_hold_no_place_at_a_server",
        ),
        guard(
            "what is known of blocks is forgotten when the table changes", "http2/hpack.py",
            "            self.known.clear()\n            return self._read(fields)\n",
            "            return self._read(fields)\n",
            _HPACK + "test_a_block_means_something_else_when_the_table_has_changed",
        ),
        guard(
            "and what is written again, too", "http2/hpack.py",
            "            self.blocks.clear()  # the others' places have changed\n",
            "            self.blocks[fields] = block\n",
            _HPACK
            + "test_fields_are_put_into_a_table_once_and_named_by_their_place_from_then_on",
        ),
    ),
    also=(
        _SERVER + "test_any_frames_at_all_leave_nothing_behind",
        _CLIENT + "test_any_frames_at_all_end_a_call",
        _HPACK + "test_any_bytes_are_read_or_refused",
    ),
)  # fmt: skip

HTTP2 = (A8,)
