"""A database that fails for a while: buyers who only look notice nothing, and nobody has to start anything again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.acceptance.asking import ask, asked, error_payload, lead
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import eventually, start, succeed_here


@pytest.mark.requirement("error-internal-error")
@pytest.mark.requirement("nothing-internal-leaves")
@pytest.mark.requirement("error-id-in-log")
@pytest.mark.requirement("retryable")
def test_reading_goes_on_leads_are_refused_and_all_is_well_again_when_the_database_is_back(tmp_path: Path) -> None:
    """INTERNAL_ERROR is retryable and holds nothing of the inside."""
    folder = stocked_dealer(tmp_path / "store")
    running = start(folder)

    def readiness() -> int:
        return httpx.get(f"{running.url}/readyz", timeout=120, verify=False).status_code

    def reported(event: str) -> list[str]:
        return sorted(line["what"] for line in running.logged() if line["event"] == event)

    try:
        with closing(sqlite3.connect(folder / "dealer-agent.db", timeout=30)) as database:
            database.execute("ALTER TABLE revisions RENAME TO away")
            database.execute("ALTER TABLE leads RENAME TO leads_away")
            eventually("it says that it is not ready", lambda: readiness() == 503)
            assert asked(running.url, "inventory.search")["total"] == 3

            refused = ask(running.url, "lead.submit", **lead(1))
            assert refused.status_code == 500
            payload = error_payload(refused)
            assert payload["code"] == "INTERNAL_ERROR"
            assert payload["retryable"] is True
            for inside in ("sqlite", "leads", ".py", "SELECT", str(folder)):
                assert inside.lower() not in refused.text.lower()
            assert payload["error_id"].removeprefix("err_") in eventually(
                "the log has it", lambda: '"event":"fault"' in running.stderr() and running.stderr()
            )
            eventually("the poll has failed", lambda: "changes" in reported("refresh failed"))

            database.execute("ALTER TABLE leads_away RENAME TO leads")
            database.execute("ALTER TABLE away RENAME TO revisions")
        eventually("it says that it is ready", lambda: readiness() == 200)
        assert asked(running.url, "lead.submit", **lead(1))["status"] == "received"
        feed = write_feed(folder / "new.json", generation(1, 40))
        accepted = ("--allow-shrink", "--accept", "columns_missing")
        succeed_here("inventory", "import", feed, "--dir", folder, *accepted)
        eventually("it shows an import again", lambda: asked(running.url, "inventory.search")["total"] == 40)
        eventually("the poll works again", lambda: "changes" in reported("refresh works again"))
        assert reported("refresh failed").count("changes") == 1, "a failure is logged once"
    finally:
        running.kill_all()
