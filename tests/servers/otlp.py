"""A receiver of traces over OTLP for tests: an HTTP server that decodes what it gets."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """A span: its ids as hexadecimal digits, and its attributes as text."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    started: int
    ended: int
    attributes: dict[str, str]


@dataclass
class OtlpReceiver:
    """The spans so far, and all bytes of the requests."""

    port: int
    spans: list[ReceivedSpan] = field(default_factory=list)
    content: bytes = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def named(self, name: str) -> ReceivedSpan:
        """The only span with this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def take(self, body: bytes) -> None:
        self.content += body
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {
                        each.key: each.value.string_value or str(each.value.int_value) for each in span.attributes
                    }
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    self.spans.append(ReceivedSpan(span.name, *ids, *times, values))


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver for a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class.
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = OtlpReceiver(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield received
        server.shutdown()
