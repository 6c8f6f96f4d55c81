"""What we ask of ourselves, and what we hope for, by the name of the figure."""

from typing import Literal

import attrs


@attrs.frozen
class Goal:
    """A line that a figure must reach, and one that it should."""

    must: float
    aim: float
    of: Literal["ratio", "value"] = "ratio"


GOALS = {
    "core_push_claim_settle_10_users": Goal(25.0, 20.0, "value"),
    "core_bytes_a_queued_task": Goal(600.0, 500.0, "value"),
    "runtime_bytes_a_queued_task": Goal(600.0, 500.0, "value"),
    "core_growth_1000_to_1000000_queued": Goal(1.5, 1.3),
    "runtime_submit_many": Goal(0.25, 0.33),
    "runtime_submit_awaited": Goal(0.30, 0.40),
    "runtime_submit_awaited_peer": Goal(1.2, 2.0),
    "runtime_best_peer": Goal(1.5, 2.5),
    "runtime_recorded": Goal(0.8, 0.9),
    "runtime_growth_10_to_10000_users": Goal(1.5, 1.3),
    "runtime_growth_10_to_100000_users": Goal(1.5, 1.3),
    "runtime_growth_1000_to_1000000_queued": Goal(1.5, 1.3),
    "runtime_latency_p50": Goal(0.5, 0.3, "value"),
    "runtime_latency_p99": Goal(2.0, 1.0, "value"),
    "durable_full": Goal(1.0, 1.0),
    "durable_full_peer": Goal(8.0, 15.0),
    "sim_mm8_trace_and_invariants": Goal(0.6, 1.0),
    "footprint_import_actors": Goal(0.25, 0.18, "value"),
}
