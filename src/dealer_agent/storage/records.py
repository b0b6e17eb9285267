"""The part of the store for records of the use of customer data: consent, its proof, and the access log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from dealer_agent.storage import accesses, consent_evidence, consents, proofs
from dealer_agent.storage.accesses import Access, AccessReport
from dealer_agent.storage.chain_heads import Head
from dealer_agent.storage.consent_evidence import Evidence
from dealer_agent.storage.consents import ChainReport, ConsentEvent
from dealer_agent.storage.database import Database
from dealer_agent.storage.event_chain import CHAINS, NOTHING_BEFORE, ChainEnd, KeptEnd, chain_end_of


class Records(Database):
    """Every call is one transaction and raises nothing but StorageError, except what it says."""

    def allowed_channels(self, dealer_id: str, lead_id: str, now: datetime) -> frozenset[str]:
        """The channels by which the customer of a lead may be contacted now."""
        with self._reading() as connection:
            return consents.allowed_channels(connection, dealer_id, lead_id, now)

    def verify_chain(self, dealer_id: str, recorded: Mapping[int, bytes] | None = None) -> ChainReport:
        """Checks every event of the dealer's chain of consents, and its end (`consents.verify_chain`)."""
        with self._reading() as connection:
            return consents.verify_chain(connection, self._keys(connection, dealer_id), dealer_id, recorded)

    def verify_accesses(self, dealer_id: str, recorded: Mapping[int, bytes] | None = None) -> AccessReport:
        """Checks every entry of the dealer's access log, and its end (`accesses.verify_accesses`)."""
        with self._reading() as connection:
            return accesses.verify_accesses(connection, self._keys(connection, dealer_id), dealer_id, recorded)

    def heads(self, dealer_id: str, now: datetime) -> list[Head]:
        """The heads of the dealer's chains; needs no key."""
        nothing = KeptEnd(ChainEnd(0, NOTHING_BEFORE), None)
        with self._reading() as connection:
            ends = {name: chain_end_of(connection, dealer_id, chain) or nothing for name, chain in CHAINS.items()}
        return [Head(dealer_id, name, kept.end.events, kept.end.head, now) for name, kept in ends.items()]

    def log_access(
        self, dealer_id: str, at: datetime, actor: str, action: str, *, lead_id: str | None = None, leads: int
    ) -> str:
        """Records that `actor` looked at the customer data of `leads` leads; `lead_id` if it is one."""
        with self._locked(dealer_id) as connection:
            cipher = self._keys_to_seal(connection, dealer_id)
            return accesses.log_access(connection, cipher, dealer_id, at, actor, action, lead_id=lead_id, leads=leads)

    def list_accesses(self, dealer_id: str, limit: int) -> list[Access]:
        """The entries of the access log, newest first."""
        with self._reading() as connection:
            return accesses.list_accesses(connection, dealer_id, limit)

    def proven_leads(self, dealer_id: str, contact: str) -> list[str]:
        """The erased leads of a contact point (normalised) whose proof of consent is kept."""
        with self._reading() as connection:
            return proofs.proven_leads(connection, self._keys(connection, dealer_id), dealer_id, contact)

    def proven_events(self, dealer_id: str, lead_ids: Sequence[str]) -> tuple[ConsentEvent, ...]:
        """The consent events of these leads, with what is kept as proof."""
        with self._reading() as connection:
            return proofs.proven_events(connection, self._keys(connection, dealer_id), dealer_id, lead_ids)

    def newest_proof(self, dealer_id: str, lead_ids: Sequence[str]) -> datetime | None:
        """The time of the newest event of these leads whose proof is kept; None if no proof is kept."""
        with self._reading() as connection:
            return proofs.newest_proof(connection, dealer_id, lead_ids)

    @contextmanager
    def exporting_consent(self, dealer_id: str, lead_ids: Sequence[str], now: datetime) -> Iterator[Evidence]:
        """The record of these leads and the chain up to its head. Read it inside the block."""
        head, _ = self.heads(dealer_id, now)
        with self._reading() as connection:
            yield consent_evidence.evidence_of(connection, self._keys(connection, dealer_id), dealer_id, lead_ids, head)
