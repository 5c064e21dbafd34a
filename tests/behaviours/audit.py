"""What is recorded, and what shows that it was not changed."""

from __future__ import annotations

from tests.behaviours import Behaviour, Guard, guard
from tests.simulation.mutations import Change

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
        "an answer waits until its record is durable", "pipeline.py",
        "                await account.on_record(told)\n", "                pass\n",
        _PIPELINE + "test_an_answer_waits_until_its_record_is_durable",
    ),
    guard(
        "durable is what the disk has", "accounting/records.py",
        "    return durable.done() and durable.result() is None\n", "    return True\n",
        _PIPELINE + "test_an_answer_waits_until_its_record_is_durable",
    ),
    guard(
        "each attempt is told of as it starts", "accounting/account.py",
        "            record = self._intent(attempt)\n", "            return None\n",
        _ACCOUNT + "test_an_attempt_after_the_first_is_told_as_it_starts_and_the_end_tells_all",
    ),
    guard(
        "a verdict that changed meanwhile is told", "accounting/account.py",
        "            or self.found is not self._told_of\n", "",
        _ACCOUNT + "test_a_verdict_that_changed_after_the_only_attempt_is_in_the_end",
    ),
    guard(
        "what was found in a call is told of that call", "accounting/account.py",
        "            and found.entities == self._entities\n", "",
        "properties/test_records_alike.py::"
        "test_a_record_like_the_one_before_says_what_it_would_by_itself",
    ),
    guard(
        "it does not go when its record failed", "accounting/account.py",
        "            raise copy(failed)", "            pass",
        _ACCOUNT + "test_without_its_record_on_disk_no_answer_goes",
    ),
    guard(
        "nor when it could not even be handed over", "accounting/account.py",
        "            self._told = None\n            self._accounts.metrics.record_failures.inc()\n"
        "            raise\n",
        "            return None\n",
        _PIPELINE + "test_without_its_record_no_answer_is_released",
    ),
    guard(
        "it waits no longer than its budget", "accounting/account.py",
        "        if deadline.at_s < waits.looks_s:\n            waits.look_at(deadline)\n", "",
        _ACCOUNT + "test_a_disk_that_hangs_holds_no_call_longer_than_its_budget",
    ),
    guard(
        "what became of a call whose record failed is recorded", "accounting/account.py",
        "                self._told = None\n            raise copy",
        "                pass\n            raise copy",
        _ACCOUNT + "test_without_its_record_on_disk_no_answer_goes",
    ),
    guard(
        "durable is what was synced", "audit/disk.py",
        " | os.O_DSYNC\n", "\n",
        _JOURNAL + "test_an_append_is_durable_when_it_returns",
    ),
    guard(
        "the rest of a failed write is cut off", "audit/disk.py",
        "            if self._unsure:\n                self._cut_back()\n", "",
        _JOURNAL + "test_what_a_failed_write_left_is_cut_off_before_the_next",
    ),
    guard(
        "while nothing can be recorded no call begins", "pipeline.py",
        "        account.check()\n", "",
        _PIPELINE + "test_while_nothing_can_be_recorded_no_call_is_read_or_sent",
    ),
    guard(
        "the writer says so", "audit/writer.py",
        "        if self._failing is not None:\n            raise self._unwritable()\n",
        "        pass\n",
        _FULL,
    ),
    guard(
        "and tells who waits", "audit/writer.py",
        "            self._tell(group.tickets, self._unwritable())\n",
        "            self._tell(group.tickets, None)\n", _FULL,
    ),
    guard(
        "what is gathered goes at the end, too", "audit/writer.py",
        "        while not self._busy and (self._groups or self._records):\n"
        "            self._hand_over()\n", "",
        _WRITER + "test_what_is_gathered_at_the_end_is_durable_too",
    ),
    guard(
        "what could not be recorded is told when it can be", "audit/keeper.py",
        'journal.note("gap", **work.gap)', 'journal.note("start")', _FULL,
    ),
    guard(
        "a place for one record is no room", "audit/keeper.py",
        "                    journal.check_room()\n", "",
        _WRITER + "test_a_disk_with_room_for_a_gap_and_for_no_call_stays_refused",
    ),
    guard(
        "nor for what is in the spool", "audit/journal.py",
        "not (self._has_room() and self._drained())", "not self._drained()",
        _WRITER + "test_a_spool_is_left_when_there_is_room_for_more_than_what_is_in_it",
    ),
    guard(
        "nor in a spool that is full", "audit/journal.py",
        "            self._spool.check_room()\n", "",
        _WRITER + "test_a_full_spool_with_room_for_a_gap_stays_refused",
    ),
    guard(
        "what fails again is tried less", "audit/writer.py",
        "        return min(2 * self._dwell_s, _LONGEST_RETRY * self._retry_s)\n",
        "        return self._retry_s\n",
        _WRITER + "test_a_disk_that_fails_again_and_again_is_tried_less_and_less",
    ),
    guard(
        "an operator is told of a disk that fails", "audit/writer.py",
        '            log.error("the audit cannot be written: %s. '
        'No call is answered until it can", why)\n', "", _FULL,
    ),
    guard(
        "and of a spool in its place", "audit/writer.py",
        'log.error("the audit\'s disk takes no records; they go into the spool")', "pass",
        _WRITER + "test_with_a_spool_calls_go_on_while_the_disk_is_full",
    ),
    guard(
        "a spool is bounded", "audit/spool.py",
        "        if self.bytes + len(lines) > self._max_bytes:\n", "        if False:\n",
        _JOURNAL + "test_a_spool_that_is_full_takes_no_more",
    ),
    guard(
        "what a killed gateway had spooled is taken over", "audit/journal.py",
        "            self._take_over(left)\n", "            pass\n",
        _JOURNAL + "test_what_a_killed_gateway_had_spooled_is_in_the_chain_at_the_next_start",
    ),
    guard(
        "the part of a line is put aside", "audit/journal.py",
        "                self._put_aside(rest)\n", "                pass\n",
        _JOURNAL + "test_the_part_of_a_line_that_a_kill_left_is_put_aside_and_recorded",
    ),
    guard(
        "two gateways do not share a chain", "audit/disk.py",
        "            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "            pass\n",
        _JOURNAL + "test_a_second_gateway_in_the_same_directory_is_refused",
    ),
)  # fmt: skip

_UNCHANGED = (
    Guard(
        "a line's hash covers the line before",
        (
            Change("audit/chain.py", "sha256(before + body).digest()\n    return",
                   "sha256(body).digest()\n    return"),
            Change("audit/chain.py", "sha256(before + body).digest()\n    if",
                   "sha256(body).digest()\n    if"),
        ),
        (_JOURNAL + "test_each_line_is_bound_to_the_one_before",),
    ),
    guard(
        "an edited line is told", "audit/chain.py",
        "    if tail != b'%b%b\"}' % (_TAIL, hexlify(found)):\n", "    if False:\n",
        _VERIFY + "test_a_change_is_told_with_its_file_and_line",
    ),
    guard(
        "a deleted or moved one by its number", "audit/chain.py",
        "    if not line.startswith(b'{\"seq\":%d,' % seq):\n", "    if False:\n",
        _VERIFY + "test_a_change_is_told_with_its_file_and_line",
    ),
    guard(
        "a shortened segment", "audit/verify.py",
        "        if not first and not self._lost and header.before != head:\n",
        "        if False:\n",
        _VERIFY + "test_a_segment_that_is_cut_short_does_not_meet_the_next",
        _VERIFY + "test_a_segment_that_is_gone_does_too",
    ),
    guard(
        "the first segments", "audit/verify.py",
        "        if found.first > self._pruned_before:\n", "        if False:\n",
        _JOURNAL + "test_segments_that_somebody_else_removed_are_missed",
    ),
    guard(
        "a removal in time is recorded", "audit/journal.py",
        '        self.note("pruned", records=cut.before.size, before=cut.before.hash.hex())\n', "",
        _JOURNAL + "test_records_beyond_their_time_are_removed_in_whole_segments",
    ),
    guard(
        "records that were hashed anew", "audit/verify.py",
        "            if checkpoint.root != root:\n", "            if False:\n",
        _VERIFY + "test_records_that_were_hashed_anew_are_not_those_that_were_signed",
    ),
    guard(
        "a cut end", "audit/verify.py",
        "        for size, at in sorted(self._at.items()):\n", "        for size, at in ():\n",
        _VERIFY + "test_a_cut_end_is_missed_by_the_checkpoint_beside_it",
    ),
    guard(
        "the last line without an end", "audit/verify.py",
        "        self._lost = True\n        self._wrong(\n",
        "        return\n        self._wrong(\n",
        _JOURNAL + "test_the_part_of_a_line_that_a_kill_left_is_put_aside_and_recorded",
    ),
    guard(
        "what was put aside is what the record tells of", "audit/verify.py",
        '        if not same or len(data) != record["bytes"]:\n', "        if False:\n",
        _JOURNAL + "test_what_was_put_aside_is_verified_too",
    ),
    guard(
        "a signature fits its text", "audit/note.py",
        "                self._check(text, signature[4:])\n", "",
        _NOTE + "test_a_note_that_was_changed_is_refused",
    ),
    guard(
        "a checkpoint is of its chain", "audit/note.py",
        "    if found.origin != key.name:\n", "    if False:\n",
        _NOTE + "test_a_checkpoint_of_another_origin_is_refused",
    ),
    guard(
        "a chain that was edited is not gone on with", "audit/journal.py",
        "                self._head.follow(line[:-1])\n            except BadLine as exc:\n"
        "                raise AuditError(f\"{segment.path}",
        "                self._head.tree.add(line[:32])\n            except BadLine as exc:\n"
        "                raise AuditError(f\"{segment.path}",
        _JOURNAL + "test_a_chain_that_was_changed_is_not_gone_on_with",
    ),
    guard(
        "nor one that is shorter than what was signed", "audit/journal.py",
        "        if last.size > self.size:\n", "        if False:\n",
        _JOURNAL + "test_a_chain_that_lost_signed_records_is_not_gone_on_with",
    ),
    guard(
        "nor one that was hashed anew", "audit/journal.py",
        "            if self.size == last.size and self._head.tree.root() != last.root:\n",
        "            if False:\n",
        _JOURNAL + "test_a_chain_that_was_hashed_anew_is_not_gone_on_with",
    ),
    guard(
        "a proof leads to the root that was signed", "audit/prove.py",
        "    if root != checkpoint.root:\n", "    if False:\n",
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
            "a listing that must be empty fails when it is not", "commands/audit.py",
            "    if wanted.must_be_empty and count:\n", "    if False:\n",
            _COMMAND + "test_a_query_for_restricted_calls_in_the_cloud_must_be_empty",
        ),
        guard(
            "the zones are those of every attempt", "audit/calls.py",
            'str(a["zone"]) for a in record["attempts"]', 'str(a["zone"]) for a in ()',
            _QUERY + "test_calls_are_found_by_what_is_asked",
        ),
        guard(
            "what was not read counts as not clear", "audit/calls.py",
            'NOT_CLEAR = ("restricted", UNKNOWN)', 'NOT_CLEAR = ("restricted",)',
            _QUERY + "test_a_call_that_was_not_read_counts_as_one_that_is_not_clear",
        ),
        guard(
            "how it ended counts", "audit/calls.py",
            "                yield _call(_ended(known, record), origin)\n",
            "                yield _call(known, origin)\n",
            _QUERY + "test_calls_are_found_by_what_is_asked",
        ),
        guard(
            "only what fits the chain is listed", "audit/verify.py",
            "                head.follow(line[:-1])\n            except ValueError",
            "                pass\n            except ValueError",
            _VERIFY + "test_records_are_not_read_over_a_break",
            _COMMAND + "test_a_query_over_a_chain_that_was_changed_says_so",
        ),
        guard(
            "what was sent stays told, whatever the end tells of", "audit/calls.py",
            '"attempts": [*untold, *end["attempts"]]', '"attempts": end["attempts"]',
            _QUERY + "test_what_was_told_as_sent_stays_so_whatever_the_end_tells_of",
        ),
        guard(
            "a class can only become worse", "audit/calls.py",
            '    worse = call if intent["sensitivity"] == "clear" else intent\n',
            "    worse = call\n",
            _QUERY + "test_a_killed_call_has_all_attempts_that_had_started_and_the_worst_class",
        ),
        guard(
            "the page shows them", "audit/figures.py",
            "            self.leaks.append(call)\n", "            pass\n",
            _REPORT + "test_a_leak_is_on_the_page_and_fails_the_command",
        ),
        guard(
            "and counts nothing of a chain that was changed", "commands/audit.py",
            "        if told.holds:\n            figures.add",
            "        if True:\n            figures.add",
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
            "an action is acknowledged when its record is durable", "audit/actions.py",
            "                failed = await durable\n", "                failed = None\n",
            _ACTIONS + "test_a_record_says_who_did_what_and_is_awaited",
            _ACTIONS + "test_a_record_that_is_not_durable_is_none",
        ),
        guard(
            "and not where it failed", "audit/actions.py",
            "        if failed is not None:\n            raise copy(failed)\n", "",
            _ACTIONS + "test_a_record_that_is_not_durable_is_none",
        ),
        guard(
            "an endpoint is drained although nothing can be recorded", "console/front.py",
            "            self._sight.fleet.drain(name, True)\n"
            "            await self._sight.tell_drained(name, True)\n"
            '            await self._done(operator, "drain", name)\n',
            '            await self._done(operator, "drain", name)\n'
            "            self._sight.fleet.drain(name, True)\n",
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "and taken back only once that is on record", "console/front.py",
            '            await self._done(operator, "undrain", name)\n'
            "            self._sight.fleet.drain(name, False)\n",
            "            self._sight.fleet.drain(name, False)\n"
            '            await self._done(operator, "undrain", name)\n',
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "nothing leaves again before that is on record", "console/front.py",
            '                await self._done(operator, "spill_go", str(stop.file))\n'
            "                self._turn(stop, False)\n",
            "                self._turn(stop, False)\n"
            '                await self._done(operator, "spill_go", str(stop.file))\n',
            _CONSOLE + "test_what_closes_is_done_without_a_record_and_what_opens_is_not",
        ),
        guard(
            "the file of the switch is noticed", "audit/actions.py",
            "            if (stopped := stop.on) is not self._actions.spill_stopped:\n",
            "            stopped = stop.on\n            if False:\n",
            _ACTIONS + "test_the_file_of_the_switch_is_noticed_once_whoever_made_it",
        ),
        guard(
            "what operators turn is not told as somebody else's", "console/front.py",
            "        async with self._actions.switching:\n", "        if True:\n",
            _CONSOLE + "test_the_switch_is_told_of_once_though_its_file_is_looked_at_meanwhile",
        ),
        guard(
            "every change of a key is kept with it", "callers/key_store.py",
            '            self._note("key_revoke", key_id, now_s)\n', "",
            _ACTIONS + "test_keys_that_are_issued_rotated_and_revoked_are_told_with_who_did_it",
        ),
        guard(
            "also one that was made while no gateway ran", "audit/actions.py",
            "            return self._keys.changes(self._since_s)\n",
            "            return self._keys.changes(ambient.wall_s())\n",
            _ACTIONS + "test_what_was_done_while_no_gateway_ran_is_told_at_the_next_start",
        ),
        guard(
            "one that could not be recorded is not forgotten", "audit/actions.py",
            "            change = self._to_tell[0]\n",
            "            change = self._to_tell.pop(0)\n",
            _ACTIONS + "test_what_could_not_be_recorded_is_told_as_soon_as_it_can_be",
        ),
        guard(
            "the page of a quarter shows them", "audit/figures.py",
            "        self.actions += [action for action in actions(did) "
            "if action.time_s in self.span]\n", "",
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
            "nothing leaves before it is on record", "attempt.py",
            "                    await self.log.on_record(told)\n", "                    pass\n",
            _LEAVING + "test_nothing_is_sent_to_the_cloud_before_it_is_on_record",
            "simulation/test_seeds.py::test_no_world_breaks_a_rule",
        ),
        guard(
            "also a second one", "accounting/account.py",
            "            record = self._intent(attempt)\n", "            return None\n",
            _LEAVING + "test_every_try_in_the_cloud_has_a_record_of_its_own",
            "simulation/test_seeds.py::test_no_world_breaks_a_rule",
        ),
        guard(
            "it is looked again whether the cloud takes it", "attempt.py",
            "                    await self.log.on_record(told)\n"
            "                self._still_available()\n",
            "                    await self.log.on_record(told)\n",
            _LEAVING + "test_a_cloud_that_went_out_meanwhile_is_not_sent_the_call",
        ),
        guard(
            "the id is the one that the cloud sees", "attempt.py",
            "Cleared(request, self.found, self.decision, self.sent_as)",
            "Cleared(request, self.found, self.decision)",
            _LEAVING + "test_every_try_in_the_cloud_has_a_record_of_its_own",
        ),
        guard(
            "canaries are on record, too", "canaries.py",
            "        if durable is not None and (failed := await durable) is not None:\n"
            "            raise copy(failed)\n", "",
            _LEAVING + "test_a_canary_to_the_cloud_is_on_record_too",
        ),
        guard(
            "what was never settled is found", "audit/calls.py",
            "        yield _call(record, origin)\n"
            "    yield from (_sent(intent, origin) for intent in leaving.values())\n",
            "        yield _call(record, origin)\n",
            _QUERY + "test_one_that_is_under_way_is_found_and_so_is_a_canary",
        ),
        guard(
            "and not taken for another call of its id", "audit/calls.py",
            "            yield from (_sent(intent, origin) for intent in leaving.values())\n"
            "            leaving.clear()\n",
            "            leaving.clear()\n",
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
