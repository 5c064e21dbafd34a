"""gRPC over our own HTTP/2, towards callers and servers that do not keep to it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_SERVER = "unit/http2/test_server.py::"
_CONNECTION = "unit/http2/test_connection.py::"
_CLIENT = "unit/http2/test_client.py::"
_HPACK = "unit/http2/test_hpack.py::"
_COSTS = "unit/http2/test_costs.py::"
_PIECES = "unit/test_pieces.py::"
_ADMISSION = "unit/fronts/test_grpc_admission.py::"
_BOUNDS = "unit/oip/test_grpc_bounds.py::"
_STREAM = "unit/fronts/test_grpc_stream.py::"

_COST_GUARDS = (
    guard(
        "the last value of a setting counts",
        "http2/frames.py",
        "    values = dict(pairs)\n",
        "    values = dict(reversed(pairs))\n",
        _COSTS + "test_only_the_last_value_of_a_setting_counts",
    ),
    guard(
        "but a table is as small as it was",
        "http2/frames.py",
        "    if HEADER_TABLE_SIZE in values:\n",
        "    if False:\n",
        _COSTS + "test_a_table_is_as_small_as_it_was_for_a_moment",
    ),
    guard(
        "SETTINGS are as many as there are",
        "http2/bounds.py",
        "    elif kind == frames.SETTINGS:\n",
        "    elif False:\n",
        _COSTS + "test_more_settings_than_there_are_end_the_connection_before_they_come",
    ),
    guard(
        "frames without data are no larger than a header block",
        "http2/bounds.py",
        "    elif size > BLOCK_BYTES:\n",
        "    elif False:\n",
        _COSTS + "test_heads_without_measure_end_the_connection_at_once",
    ),
    guard(
        "windows that SETTINGS change are counted",
        "http2/connection.py",
        "                self._controls += len(self._streams) // _WINDOWS_OF_CONTROL\n",
        "",
        _COSTS + "test_settings_that_change_many_windows_count_as_many_frames",
    ),
    guard(
        "others get their turn",
        "http2/connection.py",
        "            if steps <= 0 and at < end and not self._lost:\n",
        "            if False:\n",
        _COSTS + "test_what_costs_much_leaves_others_their_turn",
    ),
    guard(
        "data of ended streams is counted",
        "http2/connection.py",
        "        self._controls += size // _DISCARDED_BYTES\n        self._count()\n",
        "",
        _COSTS + "test_data_of_streams_that_have_ended_earn_nothing",
    ),
    guard(
        "so is a window that opens by an octet",
        "http2/sender.py",
        "        if (last or size >= _WORTH_BYTES) and self._controls > MOST_IN_ADVANCE:\n",
        "        if self._controls > MOST_IN_ADVANCE:\n",
        _COSTS + "test_windows_that_open_by_an_octet_are_a_flood",
    ),
    guard(
        "a list of fields has an end",
        "http2/hpack.py",
        "            elif left < least:\n",
        "            elif False:\n",
        _HPACK + "test_a_list_without_measure_is_not_read_to_its_end",
    ),
    guard(
        "small pieces are joined",
        "pieces.py",
        "        if size < _SMALL_BYTES and pieces and len(pieces[-1]) < _JOINED_BYTES:\n",
        "        if False:\n",
        _PIECES + "test_octets_that_come_one_by_one_are_joined",
        _COSTS + "test_small_frames_are_held_in_little_more_than_they_say",
    ),
    guard(
        "small messages do not copy large pieces",
        "pieces.py",
        "        if self._at + count > len(self._pieces[0]):\n",
        "        if True:\n",
        _PIECES + "test_small_messages_are_cut_off_a_large_piece_without_copying_it",
    ),
)
_HEAD_GUARDS = (
    guard(
        "a body is as long as its head says",
        "http2/server.py",
        "            if left < 0 or (ended and left):\n",
        "            if False:\n",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "also one that does not come",
        "http2/server.py",
        "            if exchange.length_left:\n",
        "            if False:\n",
        _COSTS + "test_no_data_where_the_head_says_that_there_is_some_is_malformed",
    ),
    guard(
        "what stands once does not stand twice",
        "http2/request.py",
        "                if name in given and name in _ONCE:\n",
        "                if False:\n",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "a request goes to one place",
        "http2/request.py",
        "    if authority and host.lower() != authority.lower():\n",
        "    if False:\n",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "and its path is one",
        "http2/request.py",
        '        and _PATH.fullmatch(pseudo[b":path"])\n',
        "",
        _COSTS + "test_a_target_that_is_none_is_malformed",
    ),
    guard(
        "trailers are no head",
        "http2/server.py",
        "        if not head.trailers:\n",
        "        if False:\n",
        _COSTS + "test_trailers_have_none_of_what_a_head_has",
    ),
    guard(
        "nor are those of an answer",
        "http2/client.py",
        "        elif head.http and call.answering:\n",
        "        elif False:\n",
        _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
    ),
    guard(
        "an answer is as long as it says",
        "http2/client.py",
        "        elif call.length not in (None, size):\n",
        "        elif False:\n",
        _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
    ),
    guard(
        "interim answers are counted",
        "http2/client.py",
        "            self._count()  # of interim answers there may be many\n",
        "",
        _CLIENT + "test_interim_answers_without_end_are_a_flood",
    ),
)
_ADMISSION_GUARDS = (
    guard(
        "who calls is asked by the head", "fronts/grpc_server.py",
        "            self._doorkeeper.admit(exchange)\n", "            pass\n",
        _ADMISSION + "test_nothing_is_held_of_somebody_unknown",
    ),
    guard(
        "what is refused is not held", "http2/server.py",
        "        if serving.refuses:\n            exchange.discards = True\n",
        "        if serving.refuses:\n",
        _ADMISSION + "test_nothing_is_held_of_somebody_unknown",
    ),
    guard(
        "and is counted", "http2/server.py",
        "            exchange.discards = True\n            self._count_reset()\n",
        "            exchange.discards = True\n",
        _ADMISSION + "test_refusals_without_end_end_the_connection",
    ),
    guard(
        "nobody known has little room", "http2/connection.py",
        "                if word & 0xFF == _DATA and self._received + size > self._room:\n",
        "                if False:\n",
        _ADMISSION + "test_a_connection_has_little_room_until_somebody_known_has_called",
    ),
    guard(
        "and a few calls at once", "http2/server.py",
        "max(calls, len(self.running)) >= _UNKNOWN_CALLS:\n", "False:\n",
        _ADMISSION + "test_somebody_unknown_has_a_few_calls_at_once",
    ),
    guard(
        "what anybody may ask is small", "fronts/grpc_server.py",
        "at_once, False, False, min(max_message_bytes, _UNKNOWN_BYTES))",
        "at_once, False, False, max_message_bytes)",
        _ADMISSION + "test_what_anybody_may_ask_is_small",
    ),
    guard(
        "all connections have one budget", "http2/server.py",
        "        if not self.host.held.take(size):\n",
        "        if self.host.held.take(size) is None:\n",
        _ADMISSION + "test_what_all_connections_hold_together_is_bounded",
    ),
    guard(
        "a refused stream ends its task", "http2/exchange.py",
        "        self.end(*self.connection.host.refusal(self, error))\n        self._stop()\n",
        "        self.end(*self.connection.host.refusal(self, error))\n",
        _ADMISSION + "test_a_stream_that_is_refused_for_want_of_room_ends",
    ),
    guard(
        "what is inflated is of that budget", "fronts/compression.py",
        "            if share is not None and not share.take(len(piece)):\n",
        "            if False:\n",
        _ADMISSION + "test_what_is_inflated_takes_its_share_and_no_more",
        _ADMISSION + "test_what_is_inflated_is_of_the_same_budget_until_it_is_answered",
    ),
    guard(
        "and bounded by what came", "fronts/compression.py",
        "    if size > _FREE_BYTES and size > came * _MOST_RATIO:\n", "    if False:\n",
        _ADMISSION + "test_what_inflates_beyond_measure_is_refused",
    ),
    guard(
        "a message comes in time", "http2/server.py",
        "            if exchange.is_late(now_s):\n", "            if False:\n",
        _ADMISSION + "test_a_message_that_does_not_come_whole_is_not_waited_for",
    ),
    guard(
        "a stream's too", "http2/exchange.py",
        "            if self.pieces.size and self.part_since_s is None:\n",
        "            if False:\n",
        _ADMISSION + "test_a_stream_may_be_silent_between_its_messages",
        _ADMISSION + "test_a_message_that_does_not_come_whole_is_not_waited_for",
    ),
    guard(
        "a message has as many parts as a call needs", "oip/grpc_bounds.py",
        "        if self._tensors < 0 or self._fields < 0:\n", "        if False:\n",
        _BOUNDS + "test_what_no_call_needs_is_refused_unread",
    ),
    guard(
        "and as many numbers", "oip/grpc_bounds.py",
        "            if self._elements < 0:\n", "            if False:\n",
        _BOUNDS + "test_what_no_call_needs_is_refused_unread",
    ),
    guard(
        "and as many dimensions", "oip/grpc_bounds.py",
        "            if ends - begins > _MOST_SHAPE:\n", "            if False:\n",
        _BOUNDS + "test_a_shape_without_measure_is_refused_unread",
    ),
    guard(
        "and as many strings", "oip/datatypes.py",
        "    if not datatype.size and count > MAX_STRINGS:\n", "    if False:\n",
        _BOUNDS + "test_strings_are_counted_by_the_shape_too",
    ),
    guard(
        "messages that are there give way", "http2/exchange.py",
        "        if self._given > _MESSAGES_AT_ONCE:\n", "        if False:\n",
        _ADMISSION + "test_messages_that_are_all_there_leave_others_their_turn",
    ),
)  # fmt: skip

A8 = Behaviour(
    "A8",
    "What a gRPC caller or server can make the gateway hold and do is bounded, whatever frames it "
    "sends: floods, resets, heads and messages without end, windows that do not open. What is not "
    "the protocol ends its stream or its connection, and no call hangs on it.",
    (
        guard(
            "a head in pieces has an end", "http2/connection.py",
            "        if self._block.size > BLOCK_BYTES or self._block_frames > BLOCK_FRAMES:\n",
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
            "        if data or ended:\n            if self._controls > MOST_IN_ADVANCE:\n",
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
            "but one that was reset before its task began is none", "http2/exchange.py",
            "            if not self.begun:", "            if False:",
            _SERVER + "test_calls_that_are_reset_before_they_begin_leave_their_places_to_others",
        ),
        guard(
            "what calls bring is not saved up for a flood", "http2/connection.py",
            "            if self._controls > MOST_IN_ADVANCE:\n"
            "                self._controls -= CONTROLS_PER_FRAME\n        else:\n",
            "            self._controls -= CONTROLS_PER_FRAME\n        else:\n",
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
            "            if pieces.size > most + PREFIX_BYTES or declared > most:\n",
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
            "        return fields if self._left >= 0 else None\n", "        return fields\n",
            _HPACK + "test_fields_that_count_too_much_are_not_kept_but_their_table_is",
        ),
        guard(
            "a frame is bounded by its head", "http2/connection.py",
            "            if size > SMALL_BYTES:\n", "            if False:\n",
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
            "        if pieces.size > self._most_bytes + PREFIX_BYTES:\n", "        if False:\n",
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
            "            self.known.clear()\n            self._known_bytes = 0\n",
            "            self._known_bytes = 0\n",
            _HPACK + "test_a_block_means_something_else_when_the_table_has_changed",
        ),
        guard(
            "and what is written again, too", "http2/hpack.py",
            "            self.blocks.clear()  # the others' places have changed\n",
            "            self.blocks[fields] = block\n",
            _HPACK
            + "test_fields_are_put_into_a_table_once_and_named_by_their_place_from_then_on",
        ),
        *_COST_GUARDS,
        *_HEAD_GUARDS,
        *_ADMISSION_GUARDS,
    ),
    also=(
        _ADMISSION + "test_who_calls_is_asked_before_any_of_the_message_is_taken",
        _ADMISSION + "test_a_client_that_has_much_to_say_learns_that_it_is_unknown",
        _PIECES + "test_pieces_are_what_came",
        _COSTS + "test_frames_of_the_corpus_end_what_is_wrong_and_nothing_else",
        _SERVER + "test_any_frames_at_all_leave_nothing_behind",
        _CLIENT + "test_any_frames_at_all_end_a_call",
        _HPACK + "test_any_bytes_are_read_or_refused",
    ),
)  # fmt: skip

HTTP2 = (A8,)
