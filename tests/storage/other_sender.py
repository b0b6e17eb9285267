"""What the tests let other processes do with an outbox: claim, send, settle."""

import random
import time
from datetime import UTC, datetime, timedelta
from multiprocessing import Queue

from tests.storage.samples import DEALER

from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.transaction import OneCipher, Transaction

CRM = ("North", "crm")


def send_all(url: str, sent: "Queue[str]") -> None:
    """Claims a few, says what it sent, and settles, until nothing is left. What is said twice was held twice."""
    engine = writer_engine(database_url(url))
    while True:
        with engine.begin() as connection:
            tx = Transaction(connection, DEALER, datetime.now(UTC), OneCipher(None))
            claimed = outbox.claim(tx, timedelta(seconds=60), CRM, random.randint(1, 5))
            left = outbox.list_deliveries(tx, 1, state="waiting")
        for delivery in claimed:
            sent.put(delivery.delivery_id)
        with engine.begin() as connection:
            tx = Transaction(connection, DEALER, datetime.now(UTC), OneCipher(None))
            for delivery in claimed:
                outbox.settle_sent(tx, delivery)
        if not left:
            break
        time.sleep(0 if claimed else 0.05)
    engine.dispose()
