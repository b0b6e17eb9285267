"""Writes a person's consent record and its proof into a file, and checks such a file without the database.

The file is lines of JSON. The first line names the dealer, the leads, and the chain's head. Each other line is an event
of the chain, from the first one to the head. Events of the person have their `body`: the salt and the text, whose hash
is the event's commitment. `said` repeats the body as readable text, and the check compares the two. Events of others
name nobody. The check needs them to follow the hashes to the head, and to show that no event of these leads is left
out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, ValidationError

from dealer_agent.leads.consent_events import KINDS, ConsentEvent
from dealer_agent.protocol.requests import Customer
from dealer_agent.storage.columns import microseconds, time_of
from dealer_agent.storage.privacy.consents import READ_CHAIN, TEXT_MISSING, MissingTexts, decrypted_body, event_of
from dealer_agent.storage.privacy.event_chain import CONSENTS, Head, by_chain, check_rows, commitment, heads
from dealer_agent.storage.transaction import Transaction

FORM: Final = "dealer-agent consent record 1"
MOST_LINE_BYTES = 1_000_000
"""The longest line of such a file: the text and the names of a consent have bounds."""

Time = Annotated[
    int,
    Meta(ge=microseconds(datetime.min.replace(tzinfo=UTC)), le=microseconds(datetime.max.replace(tzinfo=UTC))),
]
"""Microseconds since 1970, from year 1 to 9999."""


_TIMES = ("at", "granted_at", "expires_at")


class BadEvidence(ValueError):  # noqa: N818 - the name says what happened, as those of storage do
    """The file is not a consent record, or the record is not valid; the message says why and where."""


class _First(Struct, forbid_unknown_fields=True):
    form: Literal["dealer-agent consent record 1"]
    dealer_id: str
    lead_ids: tuple[str, ...]
    head: str


class _Event(Struct, forbid_unknown_fields=True, omit_defaults=True):
    number: int
    lead_id: str
    kind: str
    at: Time
    granted_at: Time | None
    expires_at: Time | None
    channels: Raw
    purpose: str
    commitment: bytes
    hash: bytes
    body: bytes | None = None
    said: Raw | UnsetType = UNSET


class Evidence(NamedTuple):
    """The head and the lines of an export. Read the lines in the transaction."""

    head: Head
    lines: Iterator[bytes]


class CheckedRecord(NamedTuple):
    """A valid record: the person's events, the head, and the number of recorded heads that were compared."""

    dealer_id: str
    events: tuple[ConsentEvent, ...]
    head: Head
    compared: int


def evidence_of(tx: Transaction, lead_ids: Sequence[str]) -> Evidence:
    """The record of these leads. Raises DecryptionFailed while the lines are read."""
    head, _ = heads(tx)
    return Evidence(head, _lines(tx, frozenset(lead_ids), head))


def _lines(tx: Transaction, lead_ids: frozenset[str], head: Head) -> Iterator[bytes]:
    yield msgspec.json.encode(_First(FORM, tx.dealer_id, tuple(sorted(lead_ids)), str(head)))
    for row in tx.execute(READ_CHAIN).mappings():
        yield msgspec.json.encode(_line(tx, row, theirs=row["lead_id"] in lead_ids))


def _line(tx: Transaction, row: Mapping[Any, Any], *, theirs: bool) -> _Event:
    """An event as a line of the exported record. `theirs`: the event is of the person, so its content is included."""
    body = decrypted_body(tx, row) if theirs else None
    columns: dict[str, Any] = {name: microseconds(row[name]) for name in _TIMES}
    columns |= {name: row[name] for name in ("number", "lead_id", "kind", "purpose", "commitment", "hash")}
    return _Event(
        **columns,
        channels=Raw(row["channels"]),
        body=body,
        said=UNSET if body is None else Raw(_readable_content(event_of(row, body))),
    )


def _readable_content(event: ConsentEvent) -> bytes:
    """The readable content of an event."""
    content = {
        "at": event.at.isoformat(),
        "granted_at": event.granted_at and event.granted_at.isoformat(),
        "expires_at": event.expires_at and event.expires_at.isoformat(),
        "customer": event.customer and Raw(event.customer),
        "text": event.consent_text,
        "scope": event.scope,
        "agent": event.agent,
        "caller": event.caller,
        "request_hash": event.request_hash and event.request_hash.hex(),
        "by": event.by,
        "reason": event.reason,
    }
    return msgspec.json.encode({name: value for name, value in content.items() if value})


def check_evidence(lines: Iterable[bytes], recorded: Iterable[Head] = ()) -> CheckedRecord:
    """Checks a record: each body against its commitment, each hash, and that the hashes lead to the head.

    It also checks that each lead has events, and that no text is left out that was not erased. It compares the
    `recorded` heads of this dealer with the events that they count. Raises BadEvidence.
    """
    numbered = enumerate(lines, start=1)
    first = _decoded(numbered, _First)
    if first is None:
        raise BadEvidence("the file is empty")
    head = _head(first)
    hashes = _hashes(recorded, first.dealer_id)
    compared = 0
    theirs: list[ConsentEvent] = []
    texts = MissingTexts()

    def content_problem(row: Mapping[Any, Any]) -> str | None:
        """What is wrong with the text of an event. None if nothing is."""
        nonlocal compared
        if row["kind"] not in KINDS:
            return "there is no such kind of event"
        compared += row["number"] in hashes
        if row["lead_id"] in first.lead_ids:
            theirs.append(_checked_event(row))
            texts.see(row, row["body"])
        elif row["body"] is not None:
            return "it has a text and belongs to no lead that the first line names"
        return None

    events = (_row(first.dealer_id, event) for event in iter(lambda: _decoded(numbered, _Event), None))
    end, problem = check_rows(events, CONSENTS, hashes, content_problem=content_problem)
    if problem is not None:
        raise BadEvidence(f"event {end.rows + 1}: {problem}")
    if texts.first is not None:
        raise BadEvidence(f"event {texts.first}: {TEXT_MISSING}")
    if end != (head.rows, head.hash):
        raise BadEvidence(
            f"the events do not lead to the head in line 1, which counts {head.rows} events: the end of the file is "
            "missing; ask for the whole file"
        )
    if not first.lead_ids:
        raise BadEvidence("line 1 names no lead")
    if absent := set(first.lead_ids).difference(event.lead_id for event in theirs):
        raise BadEvidence(f"the lead {min(absent)}, which line 1 names, has no event")
    return CheckedRecord(first.dealer_id, tuple(theirs), head, compared)


def _decoded(lines: Iterator[tuple[int, bytes]], kind: type[Any]) -> Any:
    """The next line; None at the end."""
    for number, line in lines:
        if len(line) > MOST_LINE_BYTES:
            raise BadEvidence(f"line {number} is too long")
        try:
            return msgspec.json.decode(line, type=kind)
        except (ValidationError, msgspec.DecodeError, RecursionError):
            raise BadEvidence(f"line {number} is not a line of a consent record") from None
    return None


def _head(first: _First) -> Head:
    """The head that the first line names. Raises BadEvidence."""
    try:
        head = Head.parse(first.head)
    except ValueError as problem:
        raise BadEvidence(f"the head in line 1 {problem}") from None
    if (head.dealer_id, head.chain) != (first.dealer_id, "consents"):
        raise BadEvidence("the head in line 1 is of another dealer or of another chain")
    return head


def _hashes(recorded: Iterable[Head], dealer_id: str) -> Mapping[int, bytes]:
    try:
        return by_chain(recorded, dealer_id)["consents"]
    except ValueError as problem:
        raise BadEvidence(str(problem)) from None


def _row(dealer_id: str, event: _Event) -> dict[str, Any]:
    """The columns of an event."""
    return msgspec.structs.asdict(event) | {"dealer_id": dealer_id, "channels": bytes(event.channels)}


def _checked_event(row: Mapping[Any, Any]) -> ConsentEvent:
    """The event of one line of the file. Raises BadEvidence for an event that was changed.

    Compares the text of the event with its commitment, and `said` with the text.
    """
    number, body = row["number"], row["body"]
    try:
        consent_event = event_of({**row, **{name: time_of(row[name]) for name in _TIMES}}, body)
        if consent_event.customer is not None:
            msgspec.json.decode(consent_event.customer, type=Customer)
    except (ValidationError, msgspec.DecodeError, RecursionError):
        raise BadEvidence(f"the text of event {number} was changed") from None
    if body is not None and commitment(body) != row["commitment"]:
        raise BadEvidence(f"the text of event {number} is not the one that the chain was made with")
    if body is not None and (row["said"] is UNSET or bytes(row["said"]) != _readable_content(consent_event)):
        raise BadEvidence(f"`said` of event {number} is not what its body says")
    return consent_event
