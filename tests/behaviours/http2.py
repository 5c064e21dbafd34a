"""gRPC over our own HTTP/2, towards callers and servers that do not keep to it."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_SERVER = "unit/http2/test_server.py::"
_CONNECTION = "unit/http2/test_connection.py::"
_CLIENT = "unit/http2/test_client.py::"
_HPACK = "unit/http2/test_hpack.py::"
_CONFORMANCE = "unit/http2/test_conformance.py::"
_COSTS = "unit/http2/test_costs.py::"
_PIECES = "unit/test_pieces.py::"
_ADMISSION = "unit/fronts/test_grpc_admission.py::"
_BOUNDS = "unit/oip/test_grpc_bounds.py::"
_STREAM = "unit/fronts/test_grpc_stream.py::"

_COST_GUARDS = (
    guard(
        "the last value of a setting counts",
        "A8.last-setting",
        _COSTS + "test_only_the_last_value_of_a_setting_counts",
    ),
    guard(
        "but a table is as small as it was",
        "A8.table-minimum",
        _COSTS + "test_a_table_is_as_small_as_it_was_for_a_moment",
    ),
    guard(
        "SETTINGS are as many as there are",
        "A8.settings-count",
        _COSTS + "test_more_settings_than_there_are_end_the_connection_before_they_come",
    ),
    guard(
        "frames without data are no larger than a header block",
        "A8.nondata-size",
        _COSTS + "test_heads_without_measure_end_the_connection_at_once",
    ),
    guard(
        "windows that SETTINGS change are counted",
        "A8.settings-windows",
        _COSTS + "test_settings_that_change_many_windows_count_as_many_frames",
    ),
    guard(
        "others get their turn",
        "A8.yield-turn",
        _COSTS + "test_what_costs_much_leaves_others_their_turn",
    ),
    guard(
        "data of ended streams is counted",
        "A8.ended-stream-data",
        _COSTS + "test_data_of_streams_that_have_ended_earn_nothing",
    ),
    guard(
        "so is a window that opens by an octet",
        "A8.tiny-window",
        _COSTS + "test_windows_that_open_by_an_octet_are_a_flood",
    ),
    guard(
        "a list of fields has an end",
        "A8.field-list-size",
        _HPACK + "test_a_list_without_measure_is_not_read_to_its_end",
    ),
    guard(
        "small pieces are joined",
        "A8.piece-joining",
        _PIECES + "test_octets_that_come_one_by_one_are_joined",
        _COSTS + "test_small_frames_are_held_in_little_more_than_they_say",
    ),
    guard(
        "small messages do not copy large pieces",
        "A8.piece-slicing",
        _PIECES + "test_small_messages_are_cut_off_a_large_piece_without_copying_it",
    ),
)
_HEAD_GUARDS = (
    guard(
        "frames of a stream that its sender has ended end the connection",
        "A8.closed-stream",
        _CONFORMANCE + "test_the_front_keeps_to_the_rfc",
        _COSTS + "test_streams_that_this_end_has_reset_are_remembered_within_a_bound",
    ),
    guard(
        "a body is as long as its head says",
        "A8.content-length",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "also one that does not come",
        "A8.missing-body",
        _COSTS + "test_no_data_where_the_head_says_that_there_is_some_is_malformed",
    ),
    guard(
        "what stands once does not stand twice",
        "A8.unique-header",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "a request goes to one place",
        "A8.single-authority",
        _COSTS + "test_heads_that_contradict_themselves_or_their_data_are_malformed",
    ),
    guard(
        "and its path is one",
        "A8.single-path",
        _COSTS + "test_a_target_that_is_none_is_malformed",
    ),
    guard(
        "trailers are no head",
        "A8.request-trailers",
        _COSTS + "test_trailers_have_none_of_what_a_head_has",
    ),
    guard(
        "nor are those of an answer",
        "A8.answer-trailers",
        _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
    ),
    guard(
        "an answer is as long as it says",
        "A8.answer-length",
        _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
    ),
    guard(
        "interim answers are counted",
        "A8.interim-count",
        _CLIENT + "test_interim_answers_without_end_are_a_flood",
    ),
)
_ADMISSION_GUARDS = (
    guard(
        "who calls is asked by the head", "A8.caller-identity",
        _ADMISSION + "test_nothing_is_held_of_somebody_unknown",
    ),
    guard(
        "what is refused is not held", "A8.refused-body",
        _ADMISSION + "test_nothing_is_held_of_somebody_unknown",
    ),
    guard(
        "and is counted", "A8.refusal-count",
        _ADMISSION + "test_refusals_without_end_end_the_connection",
    ),
    guard(
        "nobody known has little room", "A8.stranger-window",
        _ADMISSION + "test_a_connection_has_little_room_until_somebody_known_has_called",
    ),
    guard(
        "and a few calls at once", "A8.stranger-calls",
        _ADMISSION + "test_somebody_unknown_has_a_few_calls_at_once",
    ),
    guard(
        "what anybody may ask is small", "A8.public-size",
        _ADMISSION + "test_what_anybody_may_ask_is_small",
    ),
    guard(
        "all connections have one budget", "A8.shared-budget",
        _ADMISSION + "test_what_all_connections_hold_together_is_bounded",
    ),
    guard(
        "a refused stream ends its task", "A8.refused-stream",
        _ADMISSION + "test_a_stream_that_is_refused_for_want_of_room_ends",
    ),
    guard(
        "what is inflated is of that budget", "A8.inflated-budget",
        _ADMISSION + "test_what_is_inflated_takes_its_share_and_no_more",
        _ADMISSION + "test_what_is_inflated_is_of_the_same_budget_until_it_is_answered",
    ),
    guard(
        "and bounded by what came", "A8.inflate-ratio",
        _ADMISSION + "test_what_inflates_beyond_measure_is_refused",
    ),
    guard(
        "a message comes in time", "A8.message-time",
        _ADMISSION + "test_a_message_that_does_not_come_whole_is_not_waited_for",
    ),
    guard(
        "a stream's too", "A8.stream-message-time",
        _ADMISSION + "test_a_stream_may_be_silent_between_its_messages",
        _ADMISSION + "test_a_message_that_does_not_come_whole_is_not_waited_for",
    ),
    guard(
        "a message has as many parts as a call needs", "A8.message-parts",
        _BOUNDS + "test_what_no_call_needs_is_refused_unread",
    ),
    guard(
        "and as many numbers", "A8.number-count",
        _BOUNDS + "test_what_no_call_needs_is_refused_unread",
    ),
    guard(
        "and as many dimensions", "A8.dimension-count",
        _BOUNDS + "test_a_shape_without_measure_is_refused_unread",
    ),
    guard(
        "and as many strings", "A8.string-count",
        _BOUNDS + "test_strings_are_counted_by_the_shape_too",
    ),
    guard(
        "messages that are there give way", "A8.message-yield",
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
            "a head in pieces has an end", "A8.header-continuation",
            _SERVER + "test_a_head_without_end_ends_its_connection",
        ),
        guard(
            "frames that carry no call are counted", "A8.control-flood",
            _SERVER + "test_a_flood_of_frames_that_carry_no_call_ends_its_connection",
        ),
        guard(
            "but windows may grow with what is sent", "A8.window-allowance",
            _SERVER + "test_windows_that_grow_with_what_is_sent_are_no_flood",
        ),
        guard(
            "a call that was reset counts until its task has ended", "A8.reset-slot",
            _SERVER + "test_a_call_that_was_reset_has_its_place_until_it_has_stopped",
        ),
        guard(
            "but one that was reset before its task began is none", "A8.unstarted-reset",
            _SERVER + "test_calls_that_are_reset_before_they_begin_leave_their_places_to_others",
        ),
        guard(
            "what calls bring is not saved up for a flood", "A8.flood-credit",
            _CONNECTION + "test_what_calls_bring_is_not_saved_up_for_a_flood",
        ),
        guard(
            "so many resets and no more", "A8.reset-limit",
            _SERVER + "test_calls_that_are_reset_at_once_gain_nothing",
        ),
        guard(
            "requests that are not whole are bounded together", "A8.partial-requests",
            _SERVER + "test_requests_that_do_not_come_whole_are_bounded_all_together",
        ),
        guard(
            "and each of them", "A8.message-size",
            _SERVER + "test_a_message_that_says_that_it_is_too_large_is_refused_before_it_comes",
        ),
        guard(
            "a caller has the room that it was given", "A8.window-bound",
            _SERVER + "test_a_caller_cannot_send_more_than_it_was_given_room_for",
        ),
        guard(
            "fields that count too much are not kept", "A8.field-size",
            _HPACK + "test_fields_that_count_too_much_are_not_kept_but_their_table_is",
        ),
        guard(
            "a frame is bounded by its head", "A8.frame-size",
            _SERVER + "test_what_is_not_http2_ends_the_connection_with_its_code",
            _CONNECTION + "test_a_frame_is_too_long_by_its_head",
        ),
        guard(
            "nothing comes before the first SETTINGS, or within a head", "A8.settings-first",
            _SERVER + "test_what_is_not_http2_ends_the_connection_with_its_code",
            _CONNECTION + "test_nothing_is_taken_behind_the_end",
        ),
        guard(
            "an answer is bounded", "A8.answer-bound",
            _CLIENT + "test_what_is_no_answer_is_a_failure_of_the_endpoint",
        ),
        guard(
            "a connection that ends takes its calls with it", "A8.connection-loss",
            _CLIENT + "test_a_connection_that_is_lost_takes_its_calls_with_it_"
            "and_the_next_gets_another",
        ),
        guard(
            "so does one whose server says nothing", "A8.ping-timeout",
            _CLIENT + "test_a_server_that_stops_answering_pings_is_gone",
        ),
        guard(
            "calls that the server never began are told", "A8.goaway-retry",
            _CLIENT + "test_a_server_that_goes_away_finishes_what_it_began",
        ),
        guard(
            "a call that is given up is reset", "A8.call-reset",
            _CLIENT + "test_a_call_that_is_given_up_is_reset_at_once",
        ),
        guard(
            "an answer that waits for others holds no server up", "A8.ordered-answers",
            _STREAM
            + "test_answers_that_wait_for_those_before_them_hold_no_place_at_a_server",
        ),
        guard(
            "what is known of blocks is forgotten when the table changes", "A8.block-cache",
            _HPACK + "test_a_block_means_something_else_when_the_table_has_changed",
        ),
        guard(
            "and what is written again, too", "A8.encoder-cache",
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
