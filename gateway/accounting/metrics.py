"""Prometheus metrics. Labels come from closed sets and from the catalog, never from a call."""

from __future__ import annotations

from gateway.accounting.series import MetricsRegistry, WithoutTenants
from gateway.accounting.triton import TritonFigures
from gateway.core import ambient

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# Where budgets stand: one of 100, 300 or 750 ms is told apart from its neighbours.
_BUDGETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10,
            30, 60, 300)  # fmt: skip
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0)  # of a budget
# The next four as OpenTelemetry's conventions advise; operations are told for shorter ones, too.
_OPERATION = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48,
              40.96, 81.92)  # fmt: skip
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5,
                10)  # fmt: skip
_EACH_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_TOKENS = tuple(4**power for power in range(14))


class Metrics:
    """One registry for each gateway, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = MetricsRegistry()
        r = self.registry
        self.calls = r.counter(
            "spillway_calls",
            "Calls by how they ended.",
            ["protocol", "model", "sensitivity", "zone", "outcome", "reason"],
        )
        self.error_answers = r.counter(
            "spillway_error_answers",
            "Errors that callers were told, also of calls that were refused before they were read.",
            ["protocol", "reason"],
        )
        self.credentials_refused = r.counter(
            "spillway_credentials_refused",
            "Credentials that were not accepted, and why, which their callers are not told.",
            ["kind", "why"],
        )
        self.limit_refusals = r.counter(
            "spillway_limit_refusals",
            "Calls over a limit of their key or of their tenant.",
            ["tenant", "of", "limit"],
        )
        self.call_seconds = r.histogram(
            "spillway_call_seconds",
            "Arrival to the end of the answer.",
            ["protocol", "zone"],
            buckets=_BUDGETS,
        )
        self.budget_used = r.histogram(
            "spillway_budget_used_ratio",
            "What a call took over its latency budget; callers who left excepted.",
            ["model", "zone"],
            buckets=_SHARES,
        )
        self.tenant_calls = r.counter(
            "spillway_tenant_calls", "Calls by who called.", ["tenant", "zone", "outcome"]
        )
        labels = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
        self.gen_ai_client_duration = r.histogram(
            "gen_ai_client_operation_duration_seconds",
            "One attempt at an endpoint.",
            [*labels, "error_type"],
            buckets=_OPERATION,
        )
        self.gen_ai_server_duration = r.histogram(
            "gen_ai_server_request_duration_seconds",
            "Arrival to the end of the answer.",
            ["gen_ai_operation_name", "gen_ai_request_model", "error_type"],
            buckets=_OPERATION,
        )
        self.gen_ai_first_token = r.histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Arrival to the first event of a streamed answer.",
            labels,
            buckets=_FIRST_TOKEN,
        )
        self.gen_ai_each_token = r.histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "First event to the end of a streamed answer, over its output tokens after the first.",
            labels,
            buckets=_EACH_TOKEN,
        )
        self.gen_ai_tokens = r.histogram(
            "gen_ai_client_token_usage",
            "Tokens of one attempt, as its endpoint counted them.",
            [*labels, "gen_ai_token_type", "zone"],
            buckets=_TOKENS,
        )
        self.classify_seconds = r.histogram(
            "spillway_classify_seconds",
            "Reading a call for personal data (BEHAVIOURS C9).",
            ["sensitivity"],
            buckets=(0.00001, 0.0001, *_SECONDS),
        )
        self.hook_answers = r.counter(
            "spillway_hook_answers", "Answers of the operator's hooks.", ["hook", "answer"]
        )
        self.mirrored_calls = r.counter(
            "spillway_mirrored_calls",
            "Copies of calls for a model that is tried, by how its answer compares.",
            ["model", "agreement"],
        )
        self.scan_workers_replaced = r.counter(
            "spillway_scan_workers_replaced", "Scan workers that were killed or found dead."
        )
        self.entities = r.counter(
            "spillway_entities", "Findings by type; never the text.", ["type"]
        )
        self.pseudonymised = r.counter(
            "spillway_pseudonymised",
            "Values that surrogates stood for, by type; never the text.",
            ["type"],
        )
        self.pseudonym_doubts = r.counter(
            "spillway_pseudonym_doubts",
            "Calls that were allowed to leave with surrogates and stayed.",
            ["reason"],
        )
        self.unrestored = r.counter(
            "spillway_pseudonyms_unrestored",
            "Places in answers where something of a surrogate could not be put back.",
        )
        self.answers_read = r.counter(
            "spillway_answers_read",
            "Answers by what reading them has shown: clear, restricted, unread, withheld.",
            ["zone", "result"],
        )
        self.answer_entities = r.counter(
            "spillway_answer_entities",
            "Findings in answers by type and by part (text, tool_call); never the text.",
            ["type", "part", "zone"],
        )
        self.attempts = r.counter(
            "spillway_attempts", "Attempts by result.", ["endpoint", "zone", "result"]
        )
        self.attempt_seconds = r.histogram(
            "spillway_attempt_seconds",
            "Service time of attempts that were served, queueing excluded.",
            ["endpoint", "model"],
            buckets=_SECONDS,
        )
        self.queued_seconds = r.histogram(
            "spillway_queued_seconds",
            "Time in the gateway's queue.",
            ["endpoint", "model"],
            buckets=_SECONDS,
        )
        self.spend_usd = r.counter(
            "spillway_spend_usd", "What attempts cost.", ["endpoint", "zone"]
        )
        self.worker_restarts = r.gauge(
            "spillway_worker_restarts",
            "Workers that died and were started again, since the parent began.",
        )
        self.ledger_up = r.gauge(
            "spillway_ledger_up",
            "1 while the ledger can be written; else nothing goes to the cloud.",
        )
        self.ledger_entries = r.counter("spillway_ledger_entries", "Entries that are on disk.")
        self.ledger_waiting = r.gauge(
            "spillway_ledger_waiting", "Entries that are not written yet."
        )
        self.ledger_lost = r.counter(
            "spillway_ledger_lost", "Entries that could not be kept until they were written."
        )
        self.spill_budget_left = r.gauge(
            "spillway_spill_budget_left_usd",
            "Of the budgets of all tenants, until the first of them is used up; inf without any.",
        )
        self.in_flight = r.gauge("spillway_calls_in_flight", "Calls not ended yet.")
        self.held_bytes = r.gauge(
            "spillway_held_bytes", "Of bodies that have not come whole or are being inflated."
        )
        self.held_answer_bytes = r.gauge(
            "spillway_held_answer_bytes",
            "Of endpoints' answers that their callers have not taken yet.",
        )
        self.queue_waiting = r.gauge(
            "spillway_queue_waiting", "Calls in the queue.", ["endpoint", "model"]
        )
        self.queue_safe_mode = r.gauge(
            "spillway_queue_safe_mode",
            "1 while a simple rule decides in the place of the queue's scheduler, which failed.",
            ["endpoint", "model"],
        )
        self.queue_in_flight = r.gauge(
            "spillway_queue_in_flight",
            "Calls that the queue has with the server.",
            ["endpoint", "model"],
        )
        self.batch_fixed = r.gauge(
            "spillway_batch_fixed_seconds",
            "What a batch takes before its first call, as measured.",
            ["endpoint", "model"],
        )
        self.batch_per_work = r.gauge(
            "spillway_batch_per_work_seconds",
            "What an average call, or a row, adds to a batch.",
            ["endpoint", "model"],
        )
        self.batch_error = r.gauge(
            "spillway_batch_error_ratio",
            "Mean of predicted over measured time of the last batches, less 1.",
            ["endpoint", "model"],
        )
        self.gpu_contention = r.gauge(
            "spillway_gpu_contention_ratio",
            "How much batches of different models cost each other there: 0 nothing, 1 all.",
            ["endpoint"],
        )
        self.gpu_turns = r.gauge(
            "spillway_gpu_turns",
            "1 while the models there execute one batch at a time.",
            ["endpoint"],
        )
        self.model_provider = r.gauge(
            "spillway_model_provider",
            "1: the model there runs on this provider of ONNX Runtime.",
            ["endpoint", "model", "provider"],
        )
        self.onprem_up = r.gauge("spillway_onprem_up", "1 while an on-prem endpoint is up.")
        self.ready = r.gauge("spillway_ready", "1 while calls are taken and served.")
        self.endpoint_available = r.gauge(
            "spillway_endpoint_available", "1 while calls go there.", ["endpoint", "zone"]
        )
        self.endpoint_ejections = r.counter(
            "spillway_endpoint_ejections", "Times taken out for failing.", ["endpoint"]
        )
        self.endpoint_returns = r.counter(
            "spillway_endpoint_returns", "Times a model there was let back.", ["endpoint"]
        )
        self.endpoint_stalls = r.counter(
            "spillway_endpoint_stalls",
            "Times a model there had calls and executed nothing.",
            ["endpoint"],
        )
        self.model_out = r.gauge(
            "spillway_model_out",
            "1 while a model is out there, or left to calls with no other place.",
            ["endpoint", "model", "why"],
        )
        self.model_unbatched = r.gauge(
            "spillway_model_unbatched",
            "1 while one call at a time goes to a model whose server would join them.",
            ["endpoint", "model", "why"],
        )
        self.config_reloads = r.counter(
            "spillway_config_reloads",
            "Times that the settings file was read again, by what came of it: applied, refused, "
            "unchanged, needs_restart.",
            ["result"],
        )
        for result in ("applied", "refused", "unchanged", "needs_restart"):
            self.config_reloads.labels(result)
        self.canaries = r.counter(
            "spillway_canaries",
            "Small inferences of our own, by what came of them.",
            ["endpoint", "result"],
        )
        self.statistics_stale = r.gauge(
            "spillway_statistics_stale",
            "1 while a server's own statistics are old or missing.",
            ["endpoint"],
        )
        self.scheduler_failures = r.counter(
            "spillway_scheduler_failures",
            "Times that a queue's scheduler failed; a simple rule keeps the queue for a while.",
        )
        self.shadow_decisions = r.counter(
            "spillway_shadow_decisions",
            "Calls by where they went and where a shadow policy would have had them.",
            ["shadow", "live_zone", "shadow_zone"],
        )
        self.shadow_misses = r.counter(
            "spillway_shadow_misses",
            "Budgets missed: of the live side as it was, of a shadow as predicted.",
            ["shadow", "of"],
        )
        self.shadow_usd = r.counter(
            "spillway_shadow_cloud_usd",
            "What calls in the cloud are expected to cost, of either side.",
            ["shadow", "of"],
        )
        self.shadow_waiting = r.gauge(
            "spillway_shadow_waiting",
            "Calls in the queue that a shadow would have.",
            ["shadow", "model"],
        )
        self.shadow_errors = r.counter(
            "spillway_shadow_errors", "Times that a shadow failed.", ["shadow"]
        )
        self.shadow_skipped = r.counter(
            "spillway_shadow_skipped",
            "Calls that a shadow was not asked about, or forgot.",
            ["shadow"],
        )
        self.shadow_seconds = r.counter(
            "spillway_shadow_seconds", "The gateway's time that a shadow took.", ["shadow"]
        )
        self.cloud_waits = r.counter(
            "spillway_cloud_waits",
            "Calls for which only the cloud was left, and which found it full.",
            ["result"],
        )
        self.recovery_waits = r.counter(
            "spillway_recovery_waits",
            "Calls that waited for a server that was restarting, or for its canary.",
            ["result"],
        )
        self.triton_restarts = r.counter(
            "spillway_embedded_triton_restarts", "Restarts of the embedded server."
        )
        self.cluster_peer_up = r.gauge(
            "spillway_cluster_peer_up", "1 while another gateway answers.", ["peer"]
        )
        self.cluster_owner = r.gauge(
            "spillway_cluster_owner",
            "1 while this gateway decides on the servers of that one, its own included.",
            ["gateway"],
        )
        self.cluster_takeovers = r.counter(
            "spillway_cluster_takeovers",
            "Times that this gateway took over the servers of that one.",
            ["gateway"],
        )
        self.cluster_forwards = r.counter(
            "spillway_cluster_forwards",
            "Calls handed to the gateway that owns their servers, by what its queue said.",
            ["peer", "result"],
        )
        self.cluster_hop_seconds = r.histogram(
            "spillway_cluster_hop_seconds",
            "What a forward adds until a turn is granted, the queue excluded.",
            ["peer"],
            buckets=(0.00025, 0.0005, *_SECONDS),
        )
        self.cluster_received = r.counter(
            "spillway_cluster_received",
            "Calls that other gateways forwarded here, by how they ended here.",
            ["peer", "result"],
        )
        self.operator_actions = r.counter(
            "spillway_operator_actions", "What operators did on the page.", ["action"]
        )
        self.record_failures = r.counter(
            "spillway_record_failures", "Decision records that could not be written."
        )
        self.audit_records = r.counter(
            "spillway_audit_records", "Records of calls that were made durable."
        )
        self.audit_commit_seconds = r.histogram(
            "spillway_audit_commit_seconds",
            "Making what waited durable: one write, one sync.",
            buckets=(0.0001, 0.00025, 0.0005, *_SECONDS),
        )
        self.audit_failing = r.gauge("spillway_audit_failing", "1 while nothing can be recorded.")
        self.audit_spooled = r.gauge(
            "spillway_audit_spooled_records", "Records that only the spool has."
        )
        self.audit_size = r.gauge("spillway_audit_size", "Records in the chain.")
        self.audit_signed = r.gauge(
            "spillway_audit_signed_size", "Of them, in the last signed checkpoint."
        )
        self.tasks_failed = r.counter(
            "spillway_unexpected_errors", "Bugs met and survived.", ["where"]
        )
        self.traces_dropped = r.counter(
            "spillway_traces_dropped", "Traces that the collector did not get.", ["why"]
        )
        self.triton = TritonFigures(ambient.monotonic_s)
        r.register(self.triton)

    def render(self, tenants: bool = True) -> bytes:
        """`tenants`: also what names them."""
        # Brings an HTTP server, 15 ms of imports that no start needs.
        from prometheus_client.exposition import generate_latest

        return generate_latest(self.registry if tenants else WithoutTenants(self.registry))
