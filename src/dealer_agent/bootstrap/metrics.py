"""Makes the metrics of a process, if they are on."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dealer_agent.config.settings import MetricsSettings
from dealer_agent.delivery.dealer_outlets import Sending
from dealer_agent.server.metrics import DELIVERIES, FOLDER_VARIABLE, WorkerMetrics
from dealer_agent.server.metrics_socket import WorkerState, answering_collector
from dealer_agent.server.served_dealers import ServedDealers
from dealer_agent.server.stored_metrics import UNKNOWN_CHANNEL, StoredMetrics, channel_kinds
from dealer_agent.storage.lead_writer import LeadWriter


def worker_metrics(settings: MetricsSettings) -> WorkerMetrics | None:
    """The counters of this process. None if nobody collects them."""
    return WorkerMetrics(settings.dealers) if os.environ.get(FOLDER_VARIABLE) else None


def count_delivery(metrics: WorkerMetrics | None, sending: Sending, result: str) -> None:
    """Counts an attempt to deliver."""
    if metrics is not None:
        kind = channel_kinds(sending.dealer.profile).get(sending.delivery.receiver, UNKNOWN_CHANNEL)
        metrics.count(DELIVERIES, kind, result)


@asynccontextmanager
async def answering_metrics(
    metrics: WorkerMetrics | None, dealers: ServedDealers, writer: LeadWriter, stored: StoredMetrics
) -> AsyncIterator[None]:
    """Answers the collector of the machine during an `async with` block, if metrics are on."""
    if metrics is None:
        yield
        return
    writer.on_wait = metrics.note_wait
    state = WorkerState(metrics, dealers, writer, stored)
    async with answering_collector(
        Path(os.environ[FOLDER_VARIABLE]), lambda with_stored: state.readings(with_stored=with_stored)
    ):
        yield
