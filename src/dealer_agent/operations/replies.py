"""Makes a reply of the record again, from the stock, the settings and the request as they were, by the same code."""

from collections import OrderedDict
from hashlib import sha256
from io import BytesIO
from typing import NamedTuple

import msgspec
from xxhash import xxh64_digest

import dealer_agent
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot, SnapshotInputs, write_recorded
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays
from dealer_agent.operations import OperationError
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS
from dealer_agent.server.bindings import (
    DMC12,
    HTTP_JSON,
    JSON_RPC,
    MCP,
    Binding,
    http_json_of,
    json_rpc_of,
    success_body,
)
from dealer_agent.server.reply_record import ReplySettings
from dealer_agent.skills import public_dealer, read, with_hold
from dealer_agent.storage.stock.record import record_start, stock_times
from dealer_agent.storage.stock.recorded_replies import RecordedReply, find_reply, read_reply_settings
from dealer_agent.storage.store import Store

_settings = msgspec.json.Decoder(ReplySettings)
_AT_THE_ROOT = {binding.name: binding for binding in (HTTP_JSON, JSON_RPC, MCP, DMC12)}
KEPT_STOCKS = 4


class MadeReply(NamedTuple):
    """A reply that was made again: the same bytes as those that were sent, and their plain SHA-256."""

    recorded: RecordedReply
    version: str
    body: bytes

    @property
    def sha256(self) -> str:
        """In hexadecimal, as `sha256sum` prints it."""
        return sha256(self.body).hexdigest()


class RecordedReplies:
    """The record of a dealer's replies. It keeps the last stocks that it has made."""

    def __init__(self, store: Store, dealer_id: str) -> None:
        self._store = store
        self._dealer_id = dealer_id
        # By the revision and the hash of the settings, the stocks that were made last.
        self._stocks: OrderedDict[tuple[int, str], Catalogue] = OrderedDict()

    def make(self, reply_id: str) -> MadeReply:
        """Makes a reply again. `reply_id` is its `messageId`.

        Raises OperationError if the record does not have it, if what it depends on is not there any more, and if this
        program answers otherwise now.
        """
        try:
            with self._store.read(self._dealer_id) as tx:
                recorded = find_reply(tx, reply_id)
                document = None if recorded is None else read_reply_settings(tx, recorded.settings_id)
                is_there = recorded is not None and (
                    recorded.revision >= record_start(tx) and stock_times(tx, recorded.revision) is not None
                )
        except ValueError as problem:
            raise OperationError(f"{reply_id!a}: {problem}") from None
        if recorded is None:
            raise OperationError(
                f"the record has no reply {reply_id!a}: give the messageId of a successful reply of a reading skill"
            )
        if document is None or sha256(document).hexdigest() != recorded.settings_id:
            raise OperationError(
                f"the settings of the reply {reply_id} are missing or damaged: it cannot be made again"
            )
        if not is_there:
            raise OperationError(
                f"the stock of the reply {reply_id} is not in the record any more: it cannot be made again"
            )
        return self._make(recorded, document)

    def _make(self, recorded: RecordedReply, document: bytes) -> MadeReply:
        """Makes the body of a recorded reply again. Raises OperationError if it is not the same."""
        row, now = recorded.row, dealer_agent.__version__
        version: str = msgspec.json.decode(document, type=_Version).version
        by = f"this program is version {now}, and version {version} sent the reply"
        try:
            settings = _settings.decode(document)
            body = self._body(recorded, settings)
        except (msgspec.MsgspecError, ProtocolError, KeyError) as problem:
            raise OperationError(
                f"the reply {row.reply_id} cannot be made again: {type(problem).__name__}; {by}"
            ) from None
        if body is None:
            raise OperationError(
                f"the reply {row.reply_id} is not the same when it is made again: its row was changed, or the program "
                f"gives another answer now; {by}"
            )
        return MadeReply(recorded, version, body)

    def _body(self, recorded: RecordedReply, settings: ReplySettings) -> bytes | None:
        """The bytes of the reply. None if they differ from those that were sent, or the row is not a valid request."""
        row, binding = recorded.row, _binding_of(recorded)
        call_id, request = binding.decode(row.body, settings.vocabularies, settings.lenient)
        if not isinstance(request, Request) or request.payload is None or request.problems:
            return None
        catalogue = self._stock_of(recorded, settings)
        result = read(public_dealer(settings.profile, settings.search, catalogue), request)
        if row.held_until:
            result = with_hold(result, row.held_until)
        body = b"".join(success_body(binding, request, call_id, row.reply_id, result))
        return body if xxh64_digest(body) == row.digest and request.skill.id == row.skill else None

    def _stock_of(self, recorded: RecordedReply, settings: ReplySettings) -> Catalogue:
        """The stock as buyers saw it. Sold units answer an error, which is not recorded, so their time is free."""
        key = recorded.revision, recorded.settings_id
        if key not in self._stocks:
            profile, file = settings.profile, BytesIO()
            inputs = SnapshotInputs(listing_policy(profile), profile.policies.remember_sold_days)
            write_recorded(self._store, inputs, recorded.revision, recorded.at, file)
            self._stocks[key] = LoadedSnapshot.of(FlatArrays(file.getvalue())).catalogue
            if len(self._stocks) > KEPT_STOCKS:
                self._stocks.popitem(last=False)
        return self._stocks[key]


class _Version(msgspec.Struct):
    version: str


def _binding_of(recorded: RecordedReply) -> Binding:
    """The binding that answered. Raises KeyError for one that this program does not have."""
    row = recorded.row
    if not row.version:
        return _AT_THE_ROOT[row.binding]
    version = {str(name): each for name, each in PUBLISHED_VERSIONS.items()}[row.version]
    return json_rpc_of(version) if row.binding == JSON_RPC.name else http_json_of(version)
