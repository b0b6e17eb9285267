"""Sends traces of requests, skills, lead transactions and deliveries over OTLP (the extra `traces`).

A span has ids, codes, numbers and names of skills, channels and kinds. It never has a body, a header, an address or
anything about a customer. Only the service of a process imports this module, and only if traces are on.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import time_ns

import structlog
from msgspec import UNSET
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dealer_agent import __version__
from dealer_agent.config.settings import TracesSettings
from dealer_agent.server.log import RequestLine
from dealer_agent.storage.deliveries.outbox import DueDelivery

EXPORT_SECONDS = 5.0
"""How long the export of some spans may take; also at the end of the service."""


PROPAGATOR = TraceContextTextMapPropagator()
Attributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Span:
    """An open span. Threads may share it."""

    _tracer: trace.Tracer
    _span: trace.Span

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context that names this span."""
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def record(self, name: str, started: int, ended: int) -> None:
        """Adds a child span with these times, in nanoseconds since 1970."""
        parent = trace.set_span_in_context(self._span)
        self._tracer.start_span(name, parent, start_time=started).end(ended)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Adds a child span with the time of a `with` block."""
        started = time_ns()
        try:
            yield
        finally:
            self.record(name, started, time_ns())

    def end_request(self, line: RequestLine, status: int) -> None:
        """Ends the span of a request with what its log line has."""
        attributes: dict[str, str | int] = {"http.response.status_code": status}
        for name, value in (("skill", line.skill), ("code", line.code), ("request_id", line.request_id)):
            if value is not UNSET:
                attributes[f"dealer_agent.{name}"] = value
        self.end(attributes, failed=status >= 500)

    def end(self, attributes: Attributes, *, failed: bool) -> None:
        """Ends the span."""
        self._span.set_attributes(attributes)
        if failed:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


class Traces:
    """Makes spans, and sends those that are sampled in the background. Close it at the end."""

    def __init__(self, settings: TracesSettings) -> None:
        """Sends to the OTLP endpoint of the settings. Headers for it come from OTEL_EXPORTER_OTLP_HEADERS."""
        ratio = sampling.TraceIdRatioBased(settings.ratio)
        self._provider = TracerProvider(
            sampler=sampling.ParentBased(ratio) if settings.follow_parent else ratio,
            resource=Resource.create({"service.name": "dealer-agent", "service.version": __version__}),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dealer-agent", __version__)
        _log_problems()

    def begin(self, name: str, kind: trace.SpanKind, parent: str | None, attributes: Attributes) -> Span:
        """Begins a span. `parent` is a `traceparent`; an invalid one is ignored."""
        above = None if parent is None else PROPAGATOR.extract({"traceparent": parent})
        # An empty context: there is no other current span.
        span = self._tracer.start_span(name, above or Context(), kind, dict(attributes))
        return Span(self._tracer, span)

    def begin_request(self, binding: str, dealer_id: str, parent: bytes | None) -> Span:
        """Begins the span of a request with this header `traceparent`."""
        header = None if parent is None else parent.decode("latin-1")
        return self.begin(binding, trace.SpanKind.SERVER, header, {"dealer_agent.dealer": dealer_id})

    def begin_delivery(self, dealer_id: str, delivery: DueDelivery) -> Span:
        """Begins the span of an attempt to deliver."""
        attributes: dict[str, str | int] = {
            "dealer_agent.dealer": dealer_id,
            "dealer_agent.delivery": delivery.delivery_id,
            "dealer_agent.kind": delivery.kind,
            "dealer_agent.attempt": delivery.attempts,
        }
        return self.begin("delivery", trace.SpanKind.CLIENT, delivery.trace, attributes)

    def close(self) -> None:
        """Sends the spans that wait, for at most EXPORT_SECONDS. Blocks."""
        self._provider.shutdown()


class _Problems(logging.Handler):
    """Writes to our log that the library could not send spans. Its own message may have the address with a password."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().warning("traces not sent", of=record.name, most_lines=1)


def _log_problems() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [_Problems(logging.WARNING)]
    logger.propagate = False
