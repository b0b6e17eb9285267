"""The lead writer outlives whatever goes wrong around a group of leads."""

import pytest
from sqlalchemy import Connection, event
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER

from dealer_agent.storage.store import Store


def test_an_error_outside_the_jobs_fails_those_that_wait_and_the_next_job_is_stored(sqlite_url: str) -> None:
    make_current(sqlite_url)
    with Store.open(sqlite_url, CIPHER) as store:
        writer = store.lead_writer()

        def fail(_: Connection) -> None:
            raise MemoryError

        event.listen(store._leads, "begin", fail)
        with pytest.raises(MemoryError):
            writer.submit(DEALER, lambda _: "stored").result(timeout=60)
        event.remove(store._leads, "begin", fail)
        assert writer.submit(DEALER, lambda _: "stored").result(timeout=60) == "stored"
        writer.close()
