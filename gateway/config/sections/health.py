"""What takes an endpoint out, and what lets it back."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import AtLeastOne, Count, NotNegative, Positive, Section


class HealthSettings(Section):
    """How failing, hung and slow endpoints are found out, and how they come back."""

    doubt_ms: Positive = Field(
        600, description="silence after which a canary is sent; more where answers take longer"
    )
    canary_ms: Positive = Field(700, description="a canary answered later than this is late")
    canary_s: Positive = Field(0.5, description="between two canaries to an endpoint that is out")
    canary_passes: Count = Field(2, description="canaries in a row that bring an endpoint back")
    dwell_s: Positive = Field(1.0, description="an ejected model stays out for this long at least")
    dwell_max_s: Positive = Field(
        30.0, description="where it fails again as soon as it is back, the dwell doubles up to this"
    )
    slow_start_s: NotNegative = Field(3.0, description="until it has its whole window again")
    slow_factor: AtLeastOne = Field(8.0, description="times the usual service time is slow")
    slow_ms: Positive = Field(250, description="and no answer below this is")
    least_sample: Count = Field(10, description="answers before service times prove anything")
    response_floor_ms: Positive = Field(
        5000, description="no try is given up earlier; six times this while times are unknown"
    )
    response_factor: AtLeastOne = Field(10.0, description="times the usual high service time")
    response_per_token_ms: NotNegative = Field(
        100, description="on top, for each token of an answer that does not stream"
    )
    stream_idle_s: Positive = Field(
        60.0, description="no stream is given up for a shorter silence between two frames"
    )
    statistics_s: Positive = Field(1.0, description="between two readings of a server's statistics")
    triton_metrics_s: Positive = Field(
        5.0, description="between two readings of a Triton server's metrics"
    )
    stall_s: Positive = Field(
        2.0, description="calls in flight and no execution for so long is a stall"
    )
    embedded_silent_s: Positive = Field(
        10.0, description="an embedded server that answers nothing for so long is restarted"
    )
    restart_wait_s: NotNegative = Field(
        10.0, description="calls with no other place wait this long at most for one that restarts"
    )
    restart_waiting: Count = Field(256, description="calls that may wait for it")
