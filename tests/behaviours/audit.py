"""What is recorded, and what shows that it was not changed."""

from __future__ import annotations

from tests.behaviours import Behaviour, guard

_ACCOUNT = "unit/test_account.py::"
_COMMAND = "unit/audit/test_command.py::"
_JOURNAL = "unit/audit/test_journal.py::"
_NOTE = "unit/audit/test_note.py::"
_PIPELINE = "unit/test_pipeline.py::"
_QUERY = "unit/audit/test_query.py::"
_REPORT = "unit/audit/test_report.py::"
_VERIFY = "unit/audit/test_verify.py::"
_WRITER = "unit/audit/test_writer.py::"
_FULL = _WRITER + "test_while_the_disk_is_full_nothing_is_taken_and_afterwards_it_is_told"

_RECORDED = (
    guard(
        "an answer waits until its record is durable", "B4.durable-answer",
        _PIPELINE + "test_an_answer_waits_until_its_record_is_durable",
    ),
    guard(
        "durable is what the disk has", "B4.durable-mark",
        _PIPELINE + "test_an_answer_waits_until_its_record_is_durable",
    ),
    guard(
        "each attempt is told of as it starts", "B4.attempt-start",
        _ACCOUNT + "test_an_attempt_after_the_first_is_told_as_it_starts_and_the_end_tells_all",
    ),
    guard(
        "a verdict that changed meanwhile is told", "B4.changed-verdict",
        _ACCOUNT + "test_a_verdict_that_changed_after_the_only_attempt_is_in_the_end",
    ),
    guard(
        "it does not go when its record failed", "B4.failed-record",
        _ACCOUNT + "test_without_its_record_on_disk_no_answer_goes",
    ),
    guard(
        "nor when it could not even be handed over", "B4.handover-failure",
        _PIPELINE + "test_without_its_record_no_answer_is_released",
    ),
    guard(
        "it waits no longer than its budget", "B4.record-deadline",
        _ACCOUNT + "test_a_disk_that_hangs_holds_no_call_longer_than_its_budget",
    ),
    guard(
        "what became of a call whose record failed is recorded", "B4.failed-outcome",
        _ACCOUNT + "test_without_its_record_on_disk_no_answer_goes",
    ),
    guard(
        "durable is what was synced", "B4.synced-append",
        _JOURNAL + "test_an_append_is_durable_when_it_returns",
    ),
    guard(
        "the rest of a failed write is cut off", "B4.torn-write",
        _JOURNAL + "test_what_a_failed_write_left_is_cut_off_before_the_next",
    ),
    guard(
        "while nothing can be recorded no call begins", "B4.closed-audit",
        _PIPELINE + "test_while_nothing_can_be_recorded_no_call_is_read_or_sent",
    ),
    guard(
        "the writer says so", "B4.writer-closed",
        _FULL,
    ),
    guard(
        "and tells who waits", "B4.waiter-failure",
        _FULL,
    ),
    guard(
        "what is gathered goes at the end, too", "B4.final-flush",
        _WRITER + "test_what_is_gathered_at_the_end_is_durable_too",
    ),
    guard(
        "what could not be recorded is told when it can be", "B4.gap-record",
        _FULL,
    ),
    guard(
        "a place for one record is no room", "B4.chain-room",
        _WRITER + "test_a_disk_with_room_for_a_gap_and_for_no_call_stays_refused",
    ),
    guard(
        "nor for what is in the spool", "B4.spool-room",
        _WRITER + "test_a_spool_is_left_when_there_is_room_for_more_than_what_is_in_it",
    ),
    guard(
        "nor in a spool that is full", "B4.full-spool-room",
        _WRITER + "test_a_full_spool_with_room_for_a_gap_stays_refused",
    ),
    guard(
        "what fails again is tried less", "B4.retry-backoff",
        _WRITER + "test_a_disk_that_fails_again_and_again_is_tried_less_and_less",
    ),
    guard(
        "an operator is told of a disk that fails", "B4.disk-alarm",
        _FULL,
    ),
    guard(
        "and of a spool in its place", "B4.spool-alarm",
        _WRITER + "test_with_a_spool_calls_go_on_while_the_disk_is_full",
    ),
    guard(
        "a spool is bounded", "B4.spool-bound",
        _JOURNAL + "test_a_spool_that_is_full_takes_no_more",
    ),
    guard(
        "what a killed gateway had spooled is taken over", "B4.spool-takeover",
        _JOURNAL + "test_what_a_killed_gateway_had_spooled_is_in_the_chain_at_the_next_start",
    ),
    guard(
        "the part of a line is put aside", "B4.torn-line",
        _JOURNAL + "test_the_part_of_a_line_that_a_kill_left_is_put_aside_and_recorded",
    ),
    guard(
        "two gateways do not share a chain", "B4.directory-lock",
        _JOURNAL + "test_a_second_gateway_in_the_same_directory_is_refused",
    ),
)  # fmt: skip

_UNCHANGED = (
    guard(
        "a line's hash covers the line before", "B4.line-hash",
        _JOURNAL + "test_each_line_is_bound_to_the_one_before",
    ),
    guard(
        "an edited line is told", "B4.edited-line",
        _VERIFY + "test_a_change_is_told_with_its_file_and_line",
    ),
    guard(
        "a deleted or moved one by its number", "B4.line-number",
        _VERIFY + "test_a_change_is_told_with_its_file_and_line",
    ),
    guard(
        "a shortened segment", "B4.segment-end",
        _VERIFY + "test_a_segment_that_is_cut_short_does_not_meet_the_next",
        _VERIFY + "test_a_segment_that_is_gone_does_too",
    ),
    guard(
        "the first segments", "B4.first-segment",
        _JOURNAL + "test_segments_that_somebody_else_removed_are_missed",
    ),
    guard(
        "a removal in time is recorded", "B4.removal-record",
        _JOURNAL + "test_records_beyond_their_time_are_removed_in_whole_segments",
    ),
    guard(
        "records that were hashed anew", "B4.rehashed-records",
        _VERIFY + "test_records_that_were_hashed_anew_are_not_those_that_were_signed",
    ),
    guard(
        "a cut end", "B4.cut-end",
        _VERIFY + "test_a_cut_end_is_missed_by_the_checkpoint_beside_it",
    ),
    guard(
        "the last line without an end", "B4.unended-line",
        _JOURNAL + "test_the_part_of_a_line_that_a_kill_left_is_put_aside_and_recorded",
    ),
    guard(
        "what was put aside is what the record tells of", "B4.set-aside-match",
        _JOURNAL + "test_what_was_put_aside_is_verified_too",
    ),
    guard(
        "a signature fits its text", "B4.note-signature",
        _NOTE + "test_a_note_that_was_changed_is_refused",
    ),
    guard(
        "a checkpoint is of its chain", "B4.checkpoint-origin",
        _NOTE + "test_a_checkpoint_of_another_origin_is_refused",
    ),
    guard(
        "a chain that was edited is not gone on with", "B4.edited-chain",
        _JOURNAL + "test_a_chain_that_was_changed_is_not_gone_on_with",
    ),
    guard(
        "nor one that is shorter than what was signed", "B4.short-chain",
        _JOURNAL + "test_a_chain_that_lost_signed_records_is_not_gone_on_with",
    ),
    guard(
        "nor one that was hashed anew", "B4.rehashed-chain",
        _JOURNAL + "test_a_chain_that_was_hashed_anew_is_not_gone_on_with",
    ),
    guard(
        "a proof leads to the root that was signed", "B4.proof-root",
        _COMMAND + "test_a_proof_that_was_changed_proves_nothing",
    ),
)  # fmt: skip

B4 = Behaviour(
    "B4",
    "Every decision leaves one record without content, in a chain of hashes, durable before the "
    "answer goes; while none can be written, no call is answered, or a spool has them, and "
    "somebody is told. Edits, deletions, reorderings and truncations show.",
    (*_RECORDED, *_UNCHANGED),
    also=(
        _VERIFY + "test_of_many_random_changes_each_is_noticed",
        _WRITER + "test_no_acknowledged_record_is_lost_over_twenty_kills",
        "scenarios/test_audit.py::"
        "test_with_a_full_disk_no_call_is_answered_and_when_there_is_room_all_are",
        "scenarios/test_audit.py::test_with_a_spool_calls_go_on_and_their_records_come_back",
        "scenarios/test_audit.py::"
        "test_what_was_answered_is_on_record_after_a_kill_and_the_chain_goes_on",
    ),
)

B5 = Behaviour(
    "B5",
    "Every call of a class can be listed with the zones that it touched, between two dates, by "
    "tenant, model, reason and outcome. Of calls that are not clear none is listed for the cloud: "
    "if one is, the command fails.",
    (
        guard(
            "a listing that must be empty fails when it is not", "B5.nonempty-exit",
            _COMMAND + "test_a_query_for_restricted_calls_in_the_cloud_must_be_empty",
        ),
        guard(
            "the zones are those of every attempt", "B5.attempt-zones",
            _QUERY + "test_calls_are_found_by_what_is_asked",
        ),
        guard(
            "what was not read counts as not clear", "B5.unread-class",
            _QUERY + "test_a_call_that_was_not_read_counts_as_one_that_is_not_clear",
        ),
        guard(
            "how it ended counts", "B5.call-outcome",
            _QUERY + "test_calls_are_found_by_what_is_asked",
        ),
        guard(
            "only what fits the chain is listed", "B5.chain-break",
            _VERIFY + "test_records_are_not_read_over_a_break",
            _COMMAND + "test_a_query_over_a_chain_that_was_changed_says_so",
        ),
        guard(
            "what was sent stays told, whatever the end tells of", "B5.sent-attempts",
            _QUERY + "test_what_was_told_as_sent_stays_so_whatever_the_end_tells_of",
        ),
        guard(
            "a class can only become worse", "B5.worst-class",
            _QUERY + "test_a_killed_call_has_all_attempts_that_had_started_and_the_worst_class",
        ),
        guard(
            "the page shows them", "B5.page-leaks",
            _REPORT + "test_a_leak_is_on_the_page_and_fails_the_command",
        ),
        guard(
            "and counts nothing of a chain that was changed", "B5.broken-chain",
            _REPORT + "test_records_that_were_changed_are_not_counted",
        ),
    ),
    also=(
        "scenarios/test_placement.py::test_no_record_ever_shows_a_restricted_call_in_the_cloud",
    ),
)  # fmt: skip

_ACTIONS = "unit/audit/test_actions.py::"
_CONSOLE = "unit/console/test_front.py::"

B7 = Behaviour(
    "B7",
    "What operators do (draining, the kill switch, keys) is on record with who, what and when, in "
    "the chain of calls: on the console before it is acknowledged, elsewhere as soon as the "
    "gateway sees it. What opens something is done only once that is on record; what closes "
    "something is done whatever the audit's disk says.",
    (
        guard(
            "an action is acknowledged when its record is durable", "B7.durable-action",
            _ACTIONS + "test_a_record_says_who_did_what_and_is_awaited",
            _ACTIONS + "test_a_record_that_is_not_durable_is_none",
        ),
        guard(
            "and not where it failed", "B7.failed-action",
            _ACTIONS + "test_a_record_that_is_not_durable_is_none",
        ),
        guard(
            "an endpoint is drained although nothing can be recorded", "B7.drain-unrecorded",
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "and taken back only once that is on record", "B7.undrain-record",
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "nothing leaves again before that is on record", "B7.reopen-record",
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "the file of the switch is noticed", "B7.switch-file",
            _ACTIONS + "test_the_file_of_the_switch_is_noticed_once_whoever_made_it",
        ),
        guard(
            "what operators turn is not told as somebody else's", "B7.own-switch",
            _CONSOLE + "test_the_switch_is_told_of_once_though_its_file_is_looked_at_meanwhile",
        ),
        guard(
            "every change of a key is kept with it", "B7.key-history",
            _ACTIONS + "test_keys_that_are_issued_rotated_and_revoked_are_told_with_who_did_it",
        ),
        guard(
            "also one that was made while no gateway ran", "B7.offline-changes",
            _ACTIONS + "test_what_was_done_while_no_gateway_ran_is_told_at_the_next_start",
        ),
        guard(
            "one that could not be recorded is not forgotten", "B7.unrecorded-changes",
            _ACTIONS + "test_what_could_not_be_recorded_is_told_as_soon_as_it_can_be",
        ),
        guard(
            "the page of a quarter shows them", "B7.quarter-page",
            _ACTIONS + "test_they_are_on_the_page_of_the_quarter",
        ),
    ),
    also=(
        "scenarios/test_who_may.py::test_what_operators_do_is_in_the_audit_and_survives_a_kill",
    ),
)  # fmt: skip

_LEAVING = "unit/test_before_dispatch.py::"

B8 = Behaviour(
    "B8",
    "Whatever is sent to the cloud is on record first (`audit.before_dispatch`), under the id that "
    "the cloud sees: every line in a provider's log is found in the audit, also where the gateway "
    "was killed in between.",
    (
        guard(
            "nothing leaves before it is on record", "B8.send-record",
            _LEAVING + "test_nothing_is_sent_to_the_cloud_before_it_is_on_record",
            "simulation/test_seeds.py::test_no_world_breaks_a_rule",
        ),
        guard(
            "also a second one", "B8.retry-record",
            _LEAVING + "test_every_try_in_the_cloud_has_a_record_of_its_own",
            "simulation/test_seeds.py::test_no_world_breaks_a_rule",
        ),
        guard(
            "it is looked again whether the cloud takes it", "B8.cloud-recheck",
            _LEAVING + "test_a_cloud_that_went_out_meanwhile_is_not_sent_the_call",
        ),
        guard(
            "the id is the one that the cloud sees", "B8.cloud-id",
            _LEAVING + "test_every_try_in_the_cloud_has_a_record_of_its_own",
        ),
        guard(
            "canaries are on record, too", "B8.canary-record",
            _LEAVING + "test_a_canary_to_the_cloud_is_on_record_too",
        ),
        guard(
            "what was never settled is found", "B8.unsettled-call",
            _QUERY + "test_one_that_is_under_way_is_found_and_so_is_a_canary",
        ),
        guard(
            "and not taken for another call of its id", "B8.unsettled-identity",
            _QUERY
            + "test_a_call_that_was_sent_and_never_settled_is_found_and_counts_for_the_cloud",
        ),
    ),
    also=(
        "unit/audit/test_writer.py::test_no_call_that_a_cloud_saw_is_missing_over_twenty_kills",
        "scenarios/test_audit.py::"
        "test_a_call_that_a_cloud_has_and_a_killed_gateway_never_settled_is_found",
    ),
)  # fmt: skip

AUDIT = (B4, B5)
PROOF = (B7, B8)
