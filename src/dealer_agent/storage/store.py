"""One database behind one door: every call is one transaction and raises nothing but `StorageError`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Engine

from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage import (
    appointments,
    clock,
    keys,
    leads,
    notices,
    outbox,
    privacy,
    retention,
    sent_deliveries,
    stock,
    tokens,
)
from dealer_agent.storage.appointments import AppointmentRecord, ListedAppointment
from dealer_agent.storage.connections import (
    check_space,
    truncate_log,
)
from dealer_agent.storage.errors import ClockDoubtful, translating
from dealer_agent.storage.event_chain import lock_dealer
from dealer_agent.storage.idempotency import IDEMPOTENCY_KEPT
from dealer_agent.storage.keys import KeyUse, ResealProgress
from dealer_agent.storage.lead_record import LeadDetails, LeadToDeliver, lead_to_deliver, whole_lead
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.leads import LeadRecord, StoredLead
from dealer_agent.storage.matching import ImportRow
from dealer_agent.storage.notices import Erased
from dealer_agent.storage.outbox import Address, DeliveryRecord, DueDelivery, State
from dealer_agent.storage.privacy import Disposed
from dealer_agent.storage.records import Records
from dealer_agent.storage.retention import Purged
from dealer_agent.storage.stock import ImportOutcome, ImportRecord, Revision, Stock, StockMark
from dealer_agent.storage.tokens import ActiveToken, Purpose, TokenRecord


class Store(Records):
    """Threads may share a store. Processes may not: each opens its own, after a fork.

    Leads are written through `lead_writer()`; everything else is a method. What reads or writes customer data checks
    the keys first and raises KeyMissing or WrongKey: a store that was opened without a cipher has none.
    """

    def __init__(self, writer: Engine, reader: Engine, cipher: Cipher | None) -> None:
        super().__init__(writer, reader, cipher)
        self._resealed: defaultdict[tuple[str, str], ResealProgress] = defaultdict(ResealProgress)

    def lead_writer(self) -> LeadWriter:
        """Starts the thread that stores leads: one per process is enough, and best."""
        return LeadWriter(self._writer, self._vault)

    def check_space(self) -> None:
        """Raises DiskFull where a SQLite database has no room for more leads."""
        check_space(self._writer)

    def apply_import(
        self,
        dealer_id: str,
        rows: Sequence[ImportRow],
        *,
        at: datetime,
        source: str,
        layout: str,
        max_shrink: float | None,
        dry_run: bool,
        full: bool = True,
        remember_days: int | None = None,
    ) -> ImportOutcome:
        """Brings the stock to what `rows` say, in one transaction: readers see the old stock or the new.

        With `full`, units for sale that are not in `rows` become sold. When those are more than the share `max_shrink`
        (0 to 1) of the units for sale, raises StockShrinks and writes nothing. `dry_run` finds the same outcome, or the
        same refusal, and writes nothing. Units sold more than `remember_days` before `at` are forgotten. Only the file
        name of `source` is kept. (Contract, part 6.)
        """
        with translating():
            return stock.apply_import(
                self._writer,
                self._reader,
                dealer_id,
                rows,
                at=at,
                source=source,
                layout=layout,
                max_shrink=max_shrink,
                dry_run=dry_run,
                full=full,
                remember_days=remember_days,
            )

    def revision(self, dealer_id: str) -> Revision:
        """Whether stock or tokens changed: one row by its key, cheap enough to ask several times a second."""
        with self._reading() as connection:
            return stock.read_revision(connection, dealer_id)

    def stock_mark(self, dealer_id: str) -> StockMark:
        """Which stock there is."""
        with self._reading() as connection:
            return stock.read_mark(connection, dealer_id)

    def has_more_live_units(self, dealer_id: str, than: int) -> bool:
        """Whether more units than that are for sale."""
        with self._reading() as connection:
            return stock.has_more_live_units(connection, dealer_id, than)

    @contextmanager
    def reading_stock(self, dealer_id: str, *, remember_days: int, now: datetime) -> Iterator[Stock]:
        """All units for sale, and those sold in the last `remember_days`, as of one moment: read within the block."""
        with self._reading() as connection:
            yield stock.read_stock(connection, dealer_id, sold_since=now - timedelta(days=remember_days))

    def list_imports(self, dealer_id: str, limit: int) -> list[ImportRecord]:
        """The newest first."""
        with self._reading() as connection:
            return stock.list_imports(connection, dealer_id, limit)

    def list_leads(self, dealer_id: str, limit: int, before: str | None = None) -> list[LeadRecord]:
        """The newest first; those older than the lead `before`, when given."""
        with self._reading() as connection:
            return leads.list_leads(connection, self._keys(connection, dealer_id), dealer_id, limit, before)

    def get_lead(self, dealer_id: str, lead_id: str) -> StoredLead | None:
        """A lead with the events of its consent and what was added to it."""
        with self._reading() as connection:
            return leads.get_lead(connection, self._keys(connection, dealer_id), dealer_id, lead_id)

    def check_keys(self, dealer_id: str) -> Cipher:
        """The cipher, once its keys are known to be those of the dealer's customer data; notes the active one.

        Raises KeyMissing and WrongKey.
        """
        cipher = self._cipher_given()
        with self._reading() as connection:
            noted = keys.check_keys(connection, cipher, dealer_id)
        if not noted:
            with self._writing() as connection:
                keys.start_use(connection, cipher, dealer_id, datetime.now(UTC))
        return cipher

    def find_leads_of(self, dealer_id: str, contacts: Iterable[str]) -> list[str]:
        """All leads of a person, oldest first, by normalised contacts (`email:...`, `phone:...`)."""
        with self._reading() as connection:
            return leads.find_leads_of(connection, self._keys(connection, dealer_id), dealer_id, contacts)

    def record_revocation(
        self,
        dealer_id: str,
        lead_id: str,
        channels: Sequence[str],
        at: datetime,
        *,
        by: str,
        reason: str | None,
        tell: Profile | None = None,
    ) -> tuple[str, ...]:
        """Records a withdrawal of consent, and tells the receivers as `tell` says; the leads on which it counts."""
        with self._locked(dealer_id) as connection:
            cipher = self._keys_to_seal(connection, dealer_id)
            return notices.withdraw(
                connection, cipher, dealer_id, lead_id, channels, at, by=by, reason=reason, tell=tell
            )

    def erase_lead(
        self, dealer_id: str, lead_id: str, at: datetime, *, tell: Profile | None = None, consent_too: bool = False
    ) -> Erased | None:
        """Erases the customer of a lead; None when nothing of a customer was there to erase.

        The receivers of the lead are told, as the dealer's profile `tell` says. The proof of consent is kept apart,
        unless `consent_too`.
        """
        with self._locked(dealer_id) as connection:
            cipher = self._keys_to_seal(connection, dealer_id)
            erased = notices.erase(connection, cipher, dealer_id, lead_id, at, tell, consent_too=consent_too)
        truncate_log(self._writer)
        return erased

    def dispose(
        self, dealer_id: str, *, leads_unused_since: datetime, consents_before: datetime, now: datetime
    ) -> Disposed:
        """Forgets customers whose leads nobody used since then, and those of whom only an old consent is left.

        A few in each transaction, so that new leads do not wait; they wait for nothing while none is that old. Raises
        ClockDoubtful, and forgets nothing, when `now` is implausible.
        """
        if problem := self.clock_problem(dealer_id, now):
            raise ClockDoubtful(problem)
        total = Disposed(0, 0)
        limits = {"leads_unused_since": leads_unused_since, "consents_before": consents_before, "now": now}
        with self._reading() as connection:
            self._keys(connection, dealer_id)
        # A reader looks through all the consents, which are many.
        while any(self.disposable(dealer_id, **limits)):
            with self._locked(dealer_id) as connection:
                done = privacy.dispose(connection, self._keys_to_seal(connection, dealer_id), dealer_id, **limits)
            total = Disposed(total.leads + done.leads, total.consents + done.consents)
            if max(done) < privacy.BATCH:
                break
        if any(total):
            truncate_log(self._writer)
        return total

    def disposable(
        self, dealer_id: str, *, leads_unused_since: datetime, consents_before: datetime, now: datetime
    ) -> Disposed:
        """How much `dispose` would forget now."""
        with self._reading() as connection:
            return privacy.disposable(
                connection,
                dealer_id,
                leads_unused_since=leads_unused_since,
                consents_before=consents_before,
                now=now,
            )

    def reseal(self, dealer_id: str, limit: int) -> int:
        """Seals up to `limit` values with the active key that are sealed with others; how many.

        The first call retires the other keys. 0 says that no value is left under them: their use has ended. Leads wait
        for no more than the sealing: what takes long is read without a lock.
        """
        place = dealer_id, self._cipher_given().keyring.active
        progress = self._resealed[place]
        if progress.at_start:
            with self._locked(dealer_id) as connection:
                cipher = self._keys(connection, dealer_id)
                keys.retire_others(connection, cipher, dealer_id, datetime.now(UTC))
        while True:
            with self._reading() as connection:
                cipher = self._keys(connection, dealer_id)
                names = keys.find_others(connection, cipher, dealer_id, limit, progress)
            if not names:
                break
            with self._locked(dealer_id) as connection:
                # None are left where an erasure was faster.
                if done := keys.reseal(connection, cipher, dealer_id, limit, progress, names):
                    return done
        del self._resealed[place]
        with self._locked(dealer_id) as connection:
            if done := keys.reseal_end(connection, cipher, dealer_id):
                return done
        used = self.keys_in_use(dealer_id)
        with self._locked(dealer_id) as connection:
            keys.end_unused(connection, dealer_id, used, datetime.now(UTC))
        return 0

    def key_uses(self, dealer_id: str) -> dict[str, KeyUse]:
        """What each key is for; needs no key itself."""
        with self._reading() as connection:
            return keys.key_uses(connection, dealer_id)

    def note_next_key(self, dealer_id: str, key_id: str, at: datetime) -> None:
        """Notes the key that comes next: every process with these keys has it."""
        with self._writing() as connection:
            keys.note_next_key(connection, dealer_id, key_id, at)

    def note_lacking(self, dealer_id: str, key_id: str, machine: str | None) -> None:
        """Notes which machine lacks the next key, or that it is there now."""
        with self._writing() as connection:
            keys.note_lacking(connection, dealer_id, key_id, machine)

    def drop_unused_keys(self, dealer_id: str) -> None:
        """Lets go of the keys that nothing is sealed with: they need not be here any more; needs no key itself."""
        with self._locked(dealer_id) as connection:
            keys.drop_unused_proofs(connection, dealer_id)

    def keys_in_use(self, dealer_id: str) -> dict[str, int]:
        """How many values of the dealer's are sealed with each key; needs no key itself."""
        with self._reading() as connection:
            return keys.keys_in_use(connection, dealer_id)

    def whole_lead(self, dealer_id: str, lead_id: str, now: datetime) -> LeadDetails | None:
        """A lead with its visits, and the channels that may be used now, as of one moment."""
        with self._reading() as connection:
            return whole_lead(connection, self._keys(connection, dealer_id), dealer_id, lead_id, now)

    def lead_to_deliver(self, dealer_id: str, delivery: DueDelivery, now: datetime) -> LeadToDeliver:
        """What a delivery is made of, as of one moment."""
        with self._reading() as connection:
            return lead_to_deliver(connection, self._keys(connection, dealer_id), dealer_id, delivery, now)

    def mails_before(
        self, dealer_id: str, delivery: DueDelivery, email: str, token_id: str | None, within: timedelta
    ) -> int:
        """How many mails like this delivery went to an address in the time before it."""
        with self._reading() as connection:
            cipher = self._keys(connection, dealer_id)
            return outbox.mails_before(connection, cipher, dealer_id, delivery, email, token_id, within)

    def appointments_of(self, dealer_id: str, lead_id: str) -> list[AppointmentRecord]:
        """All visits that a lead ever asked for, oldest first."""
        with self._reading() as connection:
            return appointments.appointments_of(connection, self._keys(connection, dealer_id), dealer_id, lead_id)

    def busy_quarters(
        self, dealer_id: str, rooftop: str, kind: str, since: datetime, until: datetime
    ) -> dict[datetime, int]:
        """How many places are taken in each quarter of an hour (UTC) from `since` to before `until`, where any is."""
        with self._reading() as connection:
            return appointments.busy_quarters(connection, dealer_id, rooftop, kind, since, until)

    def list_booked(self, dealer_id: str, since: datetime) -> list[ListedAppointment]:
        """The visits that were ever confirmed for a time from `since` on, cancelled ones too, in the order of time."""
        with self._reading() as connection:
            return appointments.list_booked(connection, self._keys(connection, dealer_id), dealer_id, since)

    def list_waiting(self, dealer_id: str, since: datetime) -> list[ListedAppointment]:
        """The visits asked for since `since` that have no time yet, oldest first."""
        with self._reading() as connection:
            return appointments.list_waiting(connection, self._keys(connection, dealer_id), dealer_id, since)

    def subscribed_visits(
        self, dealer_id: str, token_hash: bytes, *, since: datetime, at: datetime, until: datetime, most: int
    ) -> list[ListedAppointment] | None:
        """At most `most` visits for the secret of a calendar (`appointments.list_shown`); None for any other secret.

        The look is noted.
        """
        with self._reading() as connection:
            token_id = tokens.find_token(connection, dealer_id, token_hash, "calendar")
            if token_id is None:
                return None
            booked = appointments.list_shown(
                connection,
                self._keys(connection, dealer_id),
                dealer_id,
                since=since,
                now=at,
                until=until,
                most=most,
            )
        customers = len({listed.appointment.lead_id for listed in booked if listed.customer is not None})
        if customers:
            self.log_access(dealer_id, at, f"token {token_id}", "calendar", leads=customers)
        return booked

    def due_addresses(self, dealer_id: str, now: datetime, lease: timedelta) -> list[Address]:
        """The rooftops and channels to which something is to be sent now; who sends has it for up to `lease`."""
        with self._reading() as connection:
            return outbox.due_addresses(connection, dealer_id, now, lease)

    def list_deliveries(
        self,
        dealer_id: str,
        limit: int,
        *,
        state: State | None = None,
        channel: str | None = None,
        lead_id: str | None = None,
    ) -> list[DeliveryRecord]:
        """The newest first, of those that were asked for."""
        with self._reading() as connection:
            return outbox.list_deliveries(connection, dealer_id, limit, state=state, channel=channel, lead_id=lead_id)

    def get_delivery(self, dealer_id: str, delivery_id: str) -> DeliveryRecord | None:
        """One delivery."""
        with self._reading() as connection:
            return outbox.get_delivery(connection, dealer_id, delivery_id)

    def retry_deliveries(
        self, dealer_id: str, at: datetime, *, delivery_id: str | None = None, channel: str | None = None
    ) -> int:
        """Has what waits or is parked tried at once: one, those of one channel, or all. How many."""
        with self._locked(dealer_id) as connection:
            return outbox.retry_deliveries(connection, dealer_id, at, delivery_id=delivery_id, channel=channel)

    def send_again(
        self,
        dealer_id: str,
        at: datetime,
        *,
        lead_id: str | None = None,
        delivery_id: str | None = None,
        channel: str | None = None,
    ) -> list[str]:
        """Sends once more what was sent: a delivery, or a lead to each of its receivers. Returns the new ids."""
        with self._locked(dealer_id) as connection:
            return sent_deliveries.send_again(
                connection, dealer_id, at, lead_id=lead_id, delivery_id=delivery_id, channel=channel
            )

    def purge(self, dealer_id: str, *, refusals_before: datetime, accesses_before: datetime, now: datetime) -> Purged:
        """Deletes answers to idempotency keys after 30 days, and refusals and accesses from before these times.

        A few in each transaction, so that leads do not wait. Raises ClockDoubtful, and deletes nothing, when `now`
        is implausible.
        """
        self.trust_clock(dealer_id, now)
        answers_before = now - IDEMPOTENCY_KEPT

        def drop_accesses(connection: Connection) -> int:
            lock_dealer(connection, dealer_id)
            cipher = self._keys_to_seal(connection, dealer_id)
            return retention.drop_old_accesses(connection, cipher, dealer_id, accesses_before, now)

        return Purged(
            self._in_batches(lambda each: retention.drop_old_replies(each, dealer_id, answers_before)),
            self._in_batches(lambda each: retention.drop_old_refusals(each, dealer_id, refusals_before)),
            self._in_batches(drop_accesses),
        )

    def _in_batches(self, delete: Callable[[Connection], int]) -> int:
        """Deletes until nothing is left, each batch in a transaction of its own."""
        total = 0
        while True:
            with self._writing() as connection:
                done = delete(connection)
            total += done
            if done < retention.ROWS_AT_ONCE:
                return total

    def clock_problem(self, dealer_id: str, now: datetime) -> str | None:
        """Why nothing is deleted by age, and what to do; None when the clock is plausible."""
        with self._reading() as connection:
            return clock.clock_problem(connection, dealer_id, now)

    def has_trusted_time(self, dealer_id: str) -> bool:
        """Whether a trusted time is stored."""
        with self._reading() as connection:
            return clock.has_trusted_time(connection, dealer_id)

    def trust_clock(self, dealer_id: str, now: datetime) -> None:
        """Stores that the service runs at this time. Raises ClockDoubtful when it is implausible."""
        with self._writing() as connection:
            clock.trust_clock(connection, dealer_id, now)

    def confirm_clock(self, dealer_id: str, now: datetime) -> None:
        """Stores that a person has confirmed the clock: deletion by age goes on."""
        with self._writing() as connection:
            clock.confirm_clock(connection, dealer_id, now)

    def create_token(
        self, dealer_id: str, name: str, token_hash: bytes, at: datetime, purpose: Purpose = "skills"
    ) -> str:
        """Keeps a new token's hash and returns its id. Raises AlreadyStored for a hash that is there."""
        with self._writing() as connection:
            return tokens.create_token(connection, dealer_id, name, token_hash, at, purpose)

    def revoke_token(self, dealer_id: str, token_id: str, at: datetime) -> bool:
        """Ends a token for ever; False when there is no such active token."""
        with self._writing() as connection:
            return tokens.revoke_token(connection, dealer_id, token_id, at)

    def list_tokens(self, dealer_id: str) -> list[TokenRecord]:
        """All of them, revoked ones too, oldest first."""
        with self._reading() as connection:
            return tokens.list_tokens(connection, dealer_id)

    def active_token_hashes(self, dealer_id: str) -> list[ActiveToken]:
        """Those that open the skills."""
        with self._reading() as connection:
            return tokens.active_token_hashes(connection, dealer_id)
