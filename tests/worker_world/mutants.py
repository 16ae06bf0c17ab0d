"""List the mutants of the worker, and write their page.

Those of PROTOCOL §6 stand first. The table's own (final, payload, expiry) are in
tests/unit/test_store_mutants.py, those of the scripts beside the histories of the protocol.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.worker_world.mutation import Mutant

BODIES: Final = "test_worker_bodies"
CRASHES: Final = "test_worker_crashes"
DEAD: Final = "test_worker_dead_letters"
FIFO: Final = "test_worker_fifo"
OUTAGES: Final = "test_worker_outages"
REFUSED: Final = "test_worker_refused"
REASONS: Final = "test_worker_reasons"
RECORDS: Final = "test_worker_records"

PAGE: Final = Path(__file__).parents[2] / "docs" / "design" / "worker-mutants.md"

OF_THE_PROTOCOL: Final = (
    Mutant(
        "delete on Superseded",
        "settling:finish_verdict",
        "return defer(SUPERSEDED, 0.0)",
        'return delete("done")',
        CRASHES,
        "superseded_holder_changes_neither_value_nor_lease_of_the_running_successor[redis]",
        also=("concluding",),
    ),
    Mutant(
        "dead-letter on Superseded X",
        "settling:finish_verdict",
        "return defer(SUPERSEDED, 0.0)",
        'return failed_verdict(b"") if ending.outcome == "X" else defer(SUPERSEDED, 0.0)',
        CRASHES,
        "permanent_failure_of_a_superseded_holder_is_not_a_dead_letter",
        also=("concluding",),
    ),
    Mutant(
        "finish before the durable write",
        "concluding:Concluding.conclude",
        "    self._record(ended)\n",
        "    self._finish([item for item in ended if item.verdict is None])\n"
        "    self._record(ended)\n",
        CRASHES,
        "container_killed_at_any_boundary_loses_nothing_and_settles_each_id_once"
        "[record die_before]",
    ),
    Mutant(
        "copy after deletion",
        "departures:Departures.settle",
        "item.message_id not in acknowledged",
        "letters[item.message_id] is None",
        OUTAGES,
        "message_stays_where_its_copy_is_not_acknowledged[down]",
    ),
    Mutant(
        "dead letter after deletion",
        "departures:Departures.settle",
        "item.message_id not in acknowledged",
        "letters[item.message_id] is None",
        OUTAGES,
        "message_stays_where_its_dead_letter_is_not_acknowledged[down]",
    ),
    Mutant(
        "copy without `first_sent`",
        "message:encode",
        "message.first_sent if message.is_copy else None",
        "None",
        DEAD,
        "copy_keeps_id_payload_trace_and_the_time_it_was_first_sent",
        also=("outgoing",),
    ),
    Mutant(
        "takeover is no reason to ask",
        "batch:Batch._has_reason_to_ask",
        "answer.takeover or ",
        "",
        REASONS,
        "takeover_is_a_reason",
    ),
    Mutant(
        "redelivery is no reason to ask",
        "batch:Batch._identify",
        "message.receive_count > 1 or ",
        "",
        REASONS,
        "redelivery_is_a_reason",
    ),
    Mutant(
        "delayed copy is no reason to ask",
        "batch:Batch._identify",
        " or message.is_copy",
        "",
        REASONS,
        "delayed_copy_is_a_reason",
    ),
    Mutant(
        "memory younger than the message is no reason to ask",
        "batch:Batch._has_reason_to_ask",
        "or lost ",
        "",
        REASONS,
        "memory_younger_than_the_message_is_a_reason",
    ),
    Mutant(
        "mode durable is no reason to ask",
        "batch:Batch._has_reason_to_ask",
        'self._container.settings.durable_mode == "durable" or ',
        "",
        REASONS,
        "mode_durable_is_a_reason",
    ),
    Mutant(
        "follower of a read-back leader",
        "concluding:Concluding._may_be_followed",
        'ending.outcome == "D" and ending.computed and ',
        "",
        RECORDS,
        "follower_of_a_leader_that_was_read_back_waits_for_its_own_turn",
    ),
)

OF_THE_TABLE: Final = (
    Mutant(
        "id bound to another payload is no reason to ask",
        "batch:Batch._has_reason_to_ask",
        " or item.ending is not None",
        "",
        REASONS,
        "id_bound_to_another_payload_is_a_reason",
    ),
    Mutant(
        "row of another payload is ignored",
        "durable:Durable._meet",
        "if row.payload_hash != item.payload_hash:",
        "if False:",
        RECORDS,
        "both_payloads_of_an_id_meet_what_the_table_holds",
    ),
    Mutant(
        "final row is ignored",
        "durable:Durable._meet",
        "elif row.is_final(rearm=item.rearm):",
        "elif False:",
        REASONS,
        "takeover_is_a_reason",
    ),
    Mutant(
        "row that runs elsewhere is ignored",
        "durable:Durable._meet",
        'elif row.status == "running" and row.deadline >= self._wall():',
        "elif False:",
        REASONS,
        "row_that_runs_elsewhere_defers",
    ),
    Mutant(
        "row that is over blocks its job",
        "durable:Durable._meet",
        " and row.deadline >= self._wall()",
        "",
        REASONS,
        "row_of_nobody_lets_the_body_run[over]",
    ),
    Mutant(
        "body runs although the table cannot be asked",
        "durable:Durable.ask",
        'item.end("U", then=give_back("store_unavailable"))',
        "pass",
        OUTAGES,
        "claims_are_given_back_where_the_table_cannot_be_asked",
    ),
    Mutant(
        "rejected write counts as recorded",
        "durable:Durable.record",
        "self._yield_to(item, row)",
        "ending.recorded = True",
        OUTAGES,
        "outcome_that_was_recorded_first_is_taken_over[done]",
    ),
    Mutant(
        "unknown write counts as recorded",
        "durable:Durable.record",
        "unknown.append(item)",
        "ending.recorded = True",
        OUTAGES,
        "message_comes_back_where_its_outcome_may_not_be_recorded[down]",
    ),
    Mutant(
        "unknown write is not repeated",
        "concluding:Concluding._write",
        "if self._invocation.remaining_seconds() < LAST_FLUSH_SECONDS + pause:",
        "if True:",
        OUTAGES,
        "write_that_fails_at_first_is_repeated_within_the_time_left[down]",
    ),
    Mutant(
        "failure without a claim has no fence",
        "durable:_take_over",
        "recorded=True, then=then, fence=row.fence",
        "recorded=True, then=then",
        RECORDS,
        "served_value_settles_an_id_that_failed_elsewhere_as_failed",
    ),
    Mutant(
        "dead letter by the cache's word alone",
        "batch:Batch._ask_table",
        "if doomed:",
        "if False:",
        DEAD,
        "quarantined_job_whose_outcome_is_in_the_table_is_done",
    ),
    Mutant(
        "dead letter names the record's fence, not the row's",
        "durable:Durable.look",
        "max(verdict.fence, row.fence)",
        "verdict.fence",
        DEAD,
        "dead_letter_of_a_failed_job_names_the_greater_fence_of_record_and_row",
    ),
)

OF_THE_CLAIMS: Final = (
    Mutant(
        "local values count while the log cannot be read",
        "claiming:Claiming._send",
        "self._degraded.take(wanted, error)",
        "self._degraded.take(asking, error)",
        RECORDS,
        "local_value_is_not_used_while_the_log_cannot_be_read",
    ),
    Mutant(
        "local values skip the record",
        "claiming:Claiming._send",
        "item.answer = claims.read_look(ask, reply)",
        "item.answer = None",
        RECORDS,
        "local_value_does_not_write_for_an_id_that_is_done",
    ),
    Mutant(
        "payload of another slot is not noticed",
        "claiming:Claiming._send",
        "self._refuse_payload(item)",
        "pass",
        RECORDS,
        "same_id_with_two_payloads_and_two_keys_in_one_batch_runs_one_of_them",
    ),
    Mutant(
        "repeat is not spoken for",
        "batch:_follow",
        "earlier.absorb(item)",
        "pass",
        RECORDS,
        "redriven_repeat_is_not_swallowed_by_the_failed_id_it_follows",
    ),
)

OF_THE_BODIES: Final = (
    Mutant(
        "suspect runs before others are safe",
        "batch:Batch._run",
        "        self._ended.send()\n",
        "",
        CRASHES,
        "record_that_kills_its_container_is_quarantined_alone",
    ),
    Mutant(
        "suspect starts unmarked",
        "batch:Batch._may_start",
        "not answer.suspect and ",
        "",
        OUTAGES,
        "suspect_whose_start_cannot_be_marked_does_not_start[down]",
    ),
    Mutant(
        "body starts under a lease that ran out",
        "batch:Batch._may_start",
        " and not lease.lost and now < lease.expires_at",
        "",
        OUTAGES,
        "body_does_not_start_where_another_took_its_lease",
    ),
    Mutant(
        "body starts although its lease is lost",
        "batch:Batch._mark_started",
        "        return False\n    return True",
        "        return True\n    return True",
        OUTAGES,
        "body_does_not_start_where_another_took_its_lease",
    ),
    Mutant(
        "body starts without time to end",
        "batch:Batch._may_start",
        "if self._invocation.deadline - now < needed:",
        "if False:",
        BODIES,
        "what_has_no_time_left_is_given_back_unstarted_and_spends_no_attempt",
    ),
    Mutant(
        "body that did not start spends an attempt",
        "batch:Batch._may_start",
        'item.end("U"',
        'item.end("W"',
        BODIES,
        "what_has_no_time_left_is_given_back_unstarted_and_spends_no_attempt",
    ),
    Mutant(
        "job that is too long never starts",
        "batch:Batch._may_start",
        "if self._bodies:",
        "if True:",
        BODIES,
        "job_longer_than_an_invocation_is_started_all_the_same",
    ),
    Mutant(
        "body runs again where Powertools repeats",
        "running:Running.run",
        "if self._raised is not None:",
        "if False:",
        BODIES,
        "body_is_not_called_again_for_an_error_that_powertools_would_repeat",
    ),
    Mutant(
        "finished work waits for the end of the batch",
        "ended:Ended.send_if_due",
        "self.send()",
        "pass",
        CRASHES,
        "finished_work_before_a_hanging_record_survives_the_kill",
    ),
    Mutant(
        "nobody renews while the table is asked",
        "batch:Batch.process",
        "if _has_lease(wave):",
        "if False:",
        CRASHES,
        "leases_are_renewed_while_the_table_is_asked",
    ),
    Mutant(
        "nothing is sent beside a record that runs on",
        "ended:Ended._arm",
        "pulse.add(",
        "(lambda *_, **__: None)(",
        CRASHES,
        "work_that_ended_a_moment_before_a_hanging_record_survives_the_kill",
    ),
    Mutant(
        "quick batch is sent in pieces",
        "ended:Ended._beat",
        " and self._seconds_left() > 0",
        " and False",
        CRASHES,
        "nothing_is_sent_beside_a_record_before_it_is_due",
    ),
)

OF_THE_FINISHES: Final = (
    Mutant(
        "follower of a leader whose lease ran out",
        "concluding:Concluding._may_be_followed",
        " and self._invocation.holds(lease)",
        "",
        CRASHES,
        "follower_is_not_settled_by_a_leader_whose_lease_ran_out",
    ),
    Mutant(
        "unconfirmed outcome of mode redis is let go",
        "settling:_unanswered",
        "return give_back(UNCONFIRMED)",
        'return delete("done")',
        OUTAGES,
        "unconfirmed_job_of_mode_redis_comes_back[down]",
    ),
    Mutant(
        "lease is renewed while its finish is under way",
        "concluding:Concluding._flush",
        "heartbeat.unwatch(*_held(leases, left))",
        "pass",
        CRASHES,
        "own_finish_is_not_told_as_a_lost_lease",
    ),
    Mutant(
        "failing finish is not repeated",
        "concluding:Concluding._flush",
        "if self._invocation.now() >= until:",
        "if True:",
        OUTAGES,
        "failing_finish_is_repeated_until_the_cache_answers[redis]",
    ),
    Mutant(
        "refused finish is not repeated",
        "concluding:Concluding._flush",
        "left = [at for at in left if is_passing(replies[at])]",
        "left = []",
        REFUSED,
        "finish_that_is_refused_for_the_moment_is_repeated_and_no_other[redis]",
    ),
    Mutant(
        "what was taken is sent again with what was refused",
        "concluding:Concluding._flush",
        "left = [at for at in left if is_passing(replies[at])]",
        "left = left if any(map(is_passing, got)) else []",
        REFUSED,
        "finish_that_is_refused_for_the_moment_is_repeated_and_no_other[recorded]",
    ),
)

OF_THE_MESSAGES: Final = (
    Mutant(
        "message too old is deferred for ever",
        "departures:Departures._bound_age",
        "if waited > self._container.settings.max_age_seconds:",
        "if False:",
        DEAD,
        "job_that_waited_too_long_becomes_a_dead_letter_that_says_for_what",
    ),
    Mutant(
        "group goes on behind a head that is deferred",
        "waves:_is_settled",
        '{"delete", "dead_letter"}',
        '{"delete", "dead_letter", "defer"}',
        FIFO,
        "groups_stop_alone_and_keep_their_order",
    ),
    Mutant(
        "rest of a deferred group stays in flight",
        "departures:Departures._hide",
        "verdict.reason != BEHIND or ",
        "True or ",
        FIFO,
        "deferred_group_comes_back_together_and_in_order",
    ),
)

MUTANTS: Final = (
    *OF_THE_PROTOCOL,
    *OF_THE_TABLE,
    *OF_THE_CLAIMS,
    *OF_THE_BODIES,
    *OF_THE_FINISHES,
    *OF_THE_MESSAGES,
)


def page() -> str:
    """Return the text of docs/design/worker-mutants.md."""
    lines = [
        "# Mutants of the worker",
        "",
        "Each line is the worker with one comparison, order or step taken out, made by editing",
        "the source of one function, and the test that fails then. Those of PROTOCOL §6 stand",
        "first; the conditions of the table (final, payload, expiry) have theirs in",
        "`tests/unit/test_store_mutants.py`, the scripts have theirs beside the histories of",
        "the protocol.",
        "",
        "Written by `python -m tests.worker_world.mutants`; `tests/valkey/test_worker_mutants.py`",
        "checks the page, and that each mutant is caught.",
        "",
        "| what is broken | where | the test that fails |",
        "|---|---|---|",
    ]
    lines += [
        f"| {one.name} | `{one.where}` | `{one.file}`: {one.test.replace('_', ' ')} |"
        for one in MUTANTS
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
