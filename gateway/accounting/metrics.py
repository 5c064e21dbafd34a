"""Prometheus metrics. Labels come from closed sets and from the catalog, never from a call."""

from __future__ import annotations

from gateway.accounting.page import page
from gateway.accounting.series import Counter, Gauge, Histogram, MetricsRegistry, WithoutTenants
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
        self.calls = Counter(
            "spillway_calls",
            "Calls by how they ended.",
            ["protocol", "model", "sensitivity", "zone", "outcome", "reason"],
            registry=r,
        )
        self.error_answers = Counter(
            "spillway_error_answers",
            "Errors that callers were told, also of calls that were refused before they were read.",
            ["protocol", "reason"],
            registry=r,
        )
        self.credentials_refused = Counter(
            "spillway_credentials_refused",
            "Credentials that were not accepted, and why, which their callers are not told.",
            ["kind", "why"],
            registry=r,
        )
        self.limit_refusals = Counter(
            "spillway_limit_refusals",
            "Calls over a limit of their key or of their tenant.",
            ["tenant", "of", "limit"],
            registry=r,
        )
        self.call_seconds = Histogram(
            "spillway_call_seconds",
            "Arrival to the end of the answer.",
            ["protocol", "zone"],
            buckets=_BUDGETS,
            registry=r,
        )
        self.budget_used = Histogram(
            "spillway_budget_used_ratio",
            "What a call took over its latency budget; callers who left excepted.",
            ["model", "zone"],
            buckets=_SHARES,
            registry=r,
        )
        self.tenant_calls = Counter(
            "spillway_tenant_calls",
            "Calls by who called.",
            ["tenant", "zone", "outcome"],
            registry=r,
        )
        labels = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
        self.gen_ai_client_duration = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "One attempt at an endpoint.",
            [*labels, "error_type"],
            buckets=_OPERATION,
            registry=r,
        )
        self.gen_ai_server_duration = Histogram(
            "gen_ai_server_request_duration_seconds",
            "Arrival to the end of the answer.",
            ["gen_ai_operation_name", "gen_ai_request_model", "error_type"],
            buckets=_OPERATION,
            registry=r,
        )
        self.gen_ai_first_token = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Arrival to the first event of a streamed answer.",
            labels,
            buckets=_FIRST_TOKEN,
            registry=r,
        )
        self.gen_ai_each_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "First event to the end of a streamed answer, over its output tokens after the first.",
            labels,
            buckets=_EACH_TOKEN,
            registry=r,
        )
        self.gen_ai_tokens = Histogram(
            "gen_ai_client_token_usage",
            "Tokens of one attempt, as its endpoint counted them.",
            [*labels, "gen_ai_token_type", "zone"],
            buckets=_TOKENS,
            registry=r,
        )
        self.classify_seconds = Histogram(
            "spillway_classify_seconds",
            "Reading a call for personal data (BEHAVIOURS C9).",
            ["sensitivity"],
            buckets=(0.00001, 0.0001, *_SECONDS),
            registry=r,
        )
        self.scan_workers_replaced = Counter(
            "spillway_scan_workers_replaced",
            "Scan workers that were killed or found dead.",
            registry=r,
        )
        self.entities = Counter(
            "spillway_entities", "Findings by type; never the text.", ["type"], registry=r
        )
        self.pseudonymised = Counter(
            "spillway_pseudonymised",
            "Values that surrogates stood for, by type; never the text.",
            ["type"],
            registry=r,
        )
        self.pseudonym_doubts = Counter(
            "spillway_pseudonym_doubts",
            "Calls that were allowed to leave with surrogates and stayed.",
            ["reason"],
            registry=r,
        )
        self.unrestored = Counter(
            "spillway_pseudonyms_unrestored",
            "Places in answers where something of a surrogate could not be put back.",
            registry=r,
        )
        self.attempts = Counter(
            "spillway_attempts", "Attempts by result.", ["endpoint", "zone", "result"], registry=r
        )
        self.attempt_seconds = Histogram(
            "spillway_attempt_seconds",
            "Service time of attempts that were served, queueing excluded.",
            ["endpoint", "model"],
            buckets=_SECONDS,
            registry=r,
        )
        self.queued_seconds = Histogram(
            "spillway_queued_seconds",
            "Time in the gateway's queue.",
            ["endpoint", "model"],
            buckets=_SECONDS,
            registry=r,
        )
        self.spend_usd = Counter(
            "spillway_spend_usd", "What attempts cost.", ["endpoint", "zone"], registry=r
        )
        self.worker_restarts = Gauge(
            "spillway_worker_restarts",
            "Workers that died and were started again, since the parent began.",
            registry=r,
        )
        self.ledger_up = Gauge(
            "spillway_ledger_up",
            "1 while the ledger can be written; else nothing goes to the cloud.",
            registry=r,
        )
        self.ledger_entries = Counter(
            "spillway_ledger_entries", "Entries that are on disk.", registry=r
        )
        self.ledger_waiting = Gauge(
            "spillway_ledger_waiting", "Entries that are not written yet.", registry=r
        )
        self.ledger_lost = Counter(
            "spillway_ledger_lost", "Entries that could not be kept until they were written.",
            registry=r,
        )  # fmt: skip
        self.spill_budget_left = Gauge(
            "spillway_spill_budget_left_usd",
            "Of the budgets of all tenants, until the first of them is used up; inf without any.",
            registry=r,
        )
        self.in_flight = Gauge("spillway_calls_in_flight", "Calls not ended yet.", registry=r)
        self.held_bytes = Gauge(
            "spillway_held_bytes",
            "Of bodies that have not come whole or are being inflated.",
            registry=r,
        )
        self.held_answer_bytes = Gauge(
            "spillway_held_answer_bytes",
            "Of endpoints' answers that their callers have not taken yet.",
            registry=r,
        )
        self.queue_waiting = Gauge(
            "spillway_queue_waiting", "Calls in the queue.", ["endpoint", "model"], registry=r
        )
        self.queue_safe_mode = Gauge(
            "spillway_queue_safe_mode",
            "1 while a simple rule decides in the place of the queue's scheduler, which failed.",
            ["endpoint", "model"],
            registry=r,
        )
        self.queue_in_flight = Gauge(
            "spillway_queue_in_flight",
            "Calls that the queue has with the server.",
            ["endpoint", "model"],
            registry=r,
        )
        self.batch_fixed = Gauge(
            "spillway_batch_fixed_seconds",
            "What a batch takes before its first call, as measured.",
            ["endpoint", "model"],
            registry=r,
        )
        self.batch_per_work = Gauge(
            "spillway_batch_per_work_seconds",
            "What an average call, or a row, adds to a batch.",
            ["endpoint", "model"],
            registry=r,
        )
        self.batch_error = Gauge(
            "spillway_batch_error_ratio",
            "Mean of predicted over measured time of the last batches, less 1.",
            ["endpoint", "model"],
            registry=r,
        )
        self.gpu_contention = Gauge(
            "spillway_gpu_contention_ratio",
            "How much batches of different models cost each other there: 0 nothing, 1 all.",
            ["endpoint"],
            registry=r,
        )
        self.gpu_turns = Gauge(
            "spillway_gpu_turns",
            "1 while the models there execute one batch at a time.",
            ["endpoint"],
            registry=r,
        )
        self.model_provider = Gauge(
            "spillway_model_provider",
            "1: the model there runs on this provider of ONNX Runtime.",
            ["endpoint", "model", "provider"],
            registry=r,
        )
        self.onprem_up = Gauge(
            "spillway_onprem_up", "1 while an on-prem endpoint is up.", registry=r
        )
        self.ready = Gauge("spillway_ready", "1 while calls are taken and served.", registry=r)
        self.endpoint_available = Gauge(
            "spillway_endpoint_available", "1 while calls go there.", ["endpoint", "zone"],
            registry=r,
        )  # fmt: skip
        self.endpoint_ejections = Counter(
            "spillway_endpoint_ejections", "Times taken out for failing.", ["endpoint"], registry=r
        )
        self.endpoint_returns = Counter(
            "spillway_endpoint_returns", "Times a model there was let back.", ["endpoint"],
            registry=r,
        )  # fmt: skip
        self.endpoint_stalls = Counter(
            "spillway_endpoint_stalls",
            "Times a model there had calls and executed nothing.",
            ["endpoint"],
            registry=r,
        )
        self.model_out = Gauge(
            "spillway_model_out",
            "1 while a model is out there, or left to calls with no other place.",
            ["endpoint", "model", "why"],
            registry=r,
        )
        self.model_unbatched = Gauge(
            "spillway_model_unbatched",
            "1 while one call at a time goes to a model whose server would join them.",
            ["endpoint", "model", "why"],
            registry=r,
        )
        self.config_reloads = Counter(
            "spillway_config_reloads",
            "Times that the settings file was read again, by what came of it: applied, refused, "
            "unchanged, needs_restart.",
            ["result"],
            registry=r,
        )
        for result in ("applied", "refused", "unchanged", "needs_restart"):
            self.config_reloads.labels(result)
        self.canaries = Counter(
            "spillway_canaries",
            "Small inferences of our own, by what came of them.",
            ["endpoint", "result"],
            registry=r,
        )
        self.statistics_stale = Gauge(
            "spillway_statistics_stale",
            "1 while a server's own statistics are old or missing.",
            ["endpoint"],
            registry=r,
        )
        self.scheduler_failures = Counter(
            "spillway_scheduler_failures",
            "Times that a queue's scheduler failed; a simple rule keeps the queue for a while.",
            registry=r,
        )
        self.shadow_decisions = Counter(
            "spillway_shadow_decisions",
            "Calls by where they went and where a shadow policy would have had them.",
            ["shadow", "live_zone", "shadow_zone"],
            registry=r,
        )
        self.shadow_misses = Counter(
            "spillway_shadow_misses",
            "Budgets missed: of the live side as it was, of a shadow as predicted.",
            ["shadow", "of"],
            registry=r,
        )
        self.shadow_usd = Counter(
            "spillway_shadow_cloud_usd",
            "What calls in the cloud are expected to cost, of either side.",
            ["shadow", "of"],
            registry=r,
        )
        self.shadow_waiting = Gauge(
            "spillway_shadow_waiting",
            "Calls in the queue that a shadow would have.",
            ["shadow", "model"],
            registry=r,
        )
        self.shadow_errors = Counter(
            "spillway_shadow_errors", "Times that a shadow failed.", ["shadow"], registry=r
        )
        self.shadow_skipped = Counter(
            "spillway_shadow_skipped",
            "Calls that a shadow was not asked about, or forgot.",
            ["shadow"],
            registry=r,
        )
        self.shadow_seconds = Counter(
            "spillway_shadow_seconds", "The gateway's time that a shadow took.", ["shadow"],
            registry=r,
        )  # fmt: skip
        self.cloud_waits = Counter(
            "spillway_cloud_waits",
            "Calls for which only the cloud was left, and which found it full.",
            ["result"],
            registry=r,
        )
        self.recovery_waits = Counter(
            "spillway_recovery_waits",
            "Calls that waited for a server that was restarting, or for its canary.",
            ["result"],
            registry=r,
        )
        self.triton_restarts = Counter(
            "spillway_embedded_triton_restarts", "Restarts of the embedded server.", registry=r
        )
        self.cluster_peer_up = Gauge(
            "spillway_cluster_peer_up", "1 while another gateway answers.", ["peer"], registry=r
        )
        self.cluster_owner = Gauge(
            "spillway_cluster_owner",
            "1 while this gateway decides on the servers of that one, its own included.",
            ["gateway"],
            registry=r,
        )
        self.cluster_takeovers = Counter(
            "spillway_cluster_takeovers",
            "Times that this gateway took over the servers of that one.",
            ["gateway"],
            registry=r,
        )
        self.cluster_forwards = Counter(
            "spillway_cluster_forwards",
            "Calls handed to the gateway that owns their servers, by what its queue said.",
            ["peer", "result"],
            registry=r,
        )
        self.cluster_hop_seconds = Histogram(
            "spillway_cluster_hop_seconds",
            "What a forward adds until a turn is granted, the queue excluded.",
            ["peer"],
            buckets=(0.00025, 0.0005, *_SECONDS),
            registry=r,
        )
        self.cluster_received = Counter(
            "spillway_cluster_received",
            "Calls that other gateways forwarded here, by how they ended here.",
            ["peer", "result"],
            registry=r,
        )
        self.operator_actions = Counter(
            "spillway_operator_actions", "What operators did on the page.", ["action"], registry=r
        )
        self.record_failures = Counter(
            "spillway_record_failures", "Decision records that could not be written.", registry=r
        )
        self.audit_records = Counter(
            "spillway_audit_records", "Records of calls that were made durable.", registry=r
        )
        self.audit_commit_seconds = Histogram(
            "spillway_audit_commit_seconds",
            "Making what waited durable: one write, one sync.",
            buckets=(0.0001, 0.00025, 0.0005, *_SECONDS),
            registry=r,
        )
        self.audit_failing = Gauge(
            "spillway_audit_failing", "1 while nothing can be recorded.", registry=r
        )
        self.audit_spooled = Gauge(
            "spillway_audit_spooled_records", "Records that only the spool has.", registry=r
        )
        self.audit_size = Gauge("spillway_audit_size", "Records in the chain.", registry=r)
        self.audit_signed = Gauge(
            "spillway_audit_signed_size", "Of them, in the last signed checkpoint.", registry=r
        )
        self.tasks_failed = Counter(
            "spillway_unexpected_errors", "Bugs met and survived.", ["where"], registry=r
        )
        self.traces_dropped = Counter(
            "spillway_traces_dropped",
            "Traces that the collector did not get.",
            ["why"],
            registry=r,
        )
        self.triton = TritonFigures(ambient.monotonic_s)
        r.register(self.triton)

    def render(self, tenants: bool = True) -> bytes:
        """`tenants`: also what names them."""
        return page(self.registry if tenants else WithoutTenants(self.registry))
