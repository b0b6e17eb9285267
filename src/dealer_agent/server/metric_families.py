"""The metrics of a service: name, kind, meaning, labels. docs/how-to/metrics.md lists them. Pure."""

from typing import Literal, NamedTuple

Combine = Literal["sum", "max", "min"]

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of all histograms, in seconds. A last bucket has everything above."""


class Family(NamedTuple):
    """A metric with all values of its labels.

    `within` combines the dealers of one worker that have the same label, and `across` the workers. Counters and
    histograms are added up.
    """

    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    within: Combine = "sum"
    across: Combine = "sum"


INFO = "dealer_agent_info"
WORKERS = "dealer_agent_workers"
REQUESTS = "dealer_agent_requests_total"
REQUEST_SECONDS = "dealer_agent_request_seconds"
RATE_LIMITED = "dealer_agent_rate_limited_requests_total"
READY = "dealer_agent_ready"
LEADS_AVAILABLE = "dealer_agent_leads_available"
CONNECTIONS = "dealer_agent_connections"
OPENED_DEALERS = "dealer_agent_opened_dealers"
UNITS = "dealer_agent_snapshot_units"
SNAPSHOT_BYTES = "dealer_agent_snapshot_bytes"
SNAPSHOT_REVISION = "dealer_agent_snapshot_revision"
CONFIRMED = "dealer_agent_snapshot_confirmed_timestamp_seconds"
STOCK_REVISION = "dealer_agent_stock_revision"
FEED = "dealer_agent_feed_imported_timestamp_seconds"
LEADS = "dealer_agent_leads_total"
WRITER_JOBS = "dealer_agent_lead_writer_waiting_jobs"
WRITER_SECONDS = "dealer_agent_lead_writer_wait_seconds"
DELIVERIES = "dealer_agent_delivery_results_total"
UNSENT = "dealer_agent_unsent_deliveries"
OLDEST = "dealer_agent_oldest_waiting_delivery_seconds"
DATABASE_READ = "dealer_agent_database_read_timestamp_seconds"

FAMILIES: dict[str, Family] = {
    INFO: Family("gauge", "Always 1. The labels name the version of the service and of Python.", ("version", "python")),
    WORKERS: Family("gauge", "The worker processes that run."),
    REQUESTS: Family(
        "counter",
        "Answered requests of the bindings. code is OK or the code of the error; skill is unknown for a request that "
        "was refused before its skill was known.",
        ("dealer", "skill", "code"),
    ),
    REQUEST_SECONDS: Family(
        "histogram", "The time from the head of a request to the end of its response, in seconds.", ("skill",)
    ),
    RATE_LIMITED: Family(
        "counter",
        "Requests refused with RATE_LIMITED, by the rate limit that refused them. overload: the process had no time.",
        ("rule",),
    ),
    READY: Family("gauge", "1 if all workers have current stock and tokens, else 0.", (), "min", "min"),
    LEADS_AVAILABLE: Family("gauge", "1 if all workers can store leads, else 0.", (), "min", "min"),
    CONNECTIONS: Family("gauge", "The open connections of clients."),
    OPENED_DEALERS: Family("gauge", "The dealers that a worker has loaded.", (), "max", "max"),
    UNITS: Family("gauge", "The vehicles for sale in the loaded snapshot.", ("dealer",), "sum", "max"),
    SNAPSHOT_BYTES: Family("gauge", "The size of the loaded snapshot, in bytes.", ("dealer",), "sum", "max"),
    SNAPSHOT_REVISION: Family(
        "gauge", "The revision of the loaded snapshot; the oldest of all workers.", ("dealer",), "min", "min"
    ),
    CONFIRMED: Family(
        "gauge",
        "When an import last confirmed all vehicles of the loaded snapshot, as Unix time.",
        ("dealer",),
        "min",
        "min",
    ),
    STOCK_REVISION: Family("gauge", "The revision of the stock in the database.", ("dealer",), "max", "max"),
    FEED: Family(
        "gauge",
        "When the last import of a feed succeeded, as Unix time; the oldest of the dealers with this label.",
        ("dealer",),
        "min",
        "max",
    ),
    LEADS: Family(
        "counter",
        "Leads by result: accepted (a new lead), duplicate (added to an earlier lead), repeated (the stored answer of "
        "an idempotency key), refused, failed (it could not be stored).",
        ("dealer", "result"),
    ),
    WRITER_JOBS: Family("gauge", "The jobs that wait for the lead writer."),
    WRITER_SECONDS: Family("histogram", "How long a job waited for the lead writer, in seconds."),
    DELIVERIES: Family(
        "counter",
        "Attempts to deliver a lead or a notice, by kind of channel. result is sent, failed (it is tried again), "
        "parked or dropped.",
        ("channel", "result"),
    ),
    UNSENT: Family(
        "gauge",
        "The deliveries that are waiting or parked, by kind of channel.",
        ("dealer", "channel", "state"),
        "sum",
        "max",
    ),
    OLDEST: Family(
        "gauge", "The age of the oldest delivery that waits, in seconds; 0 without one.", ("dealer",), "max", "max"
    ),
    DATABASE_READ: Family(
        "gauge", "When the values that come from the database were last read, as Unix time.", (), "max", "max"
    ),
    "process_cpu_seconds_total": Family("counter", "The processor time of all processes, in seconds."),
    "process_resident_memory_bytes": Family(
        "gauge", "The resident memory of all processes, in bytes. Pages that they share count in each."
    ),
    "process_open_fds": Family("gauge", "The open files of the process that has most.", (), "max", "max"),
    "process_max_fds": Family("gauge", "The limit of open files of a process.", (), "min", "min"),
    "process_start_time_seconds": Family("gauge", "When the oldest process started, as Unix time.", (), "min", "min"),
}
