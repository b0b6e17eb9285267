"""`dealer-agent leads dispose`: erases old customer data."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from dealer_agent.cli.terminal import HERE, DirOption, fail, open_customer_store, out, print_table
from dealer_agent.dealers.retention import erase_before, purge_before
from dealer_agent.storage import erasure
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.retention import purge


def dispose(
    directory: DirOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool,
        typer.Option(
            "--clock-is-right", help="Confirm this machine's clock, after the service did not run for a long time."
        ),
    ] = False,
) -> None:
    """Erase old customer data, as the running service does every hour: see the section privacy of dealer.toml.

    If the clock is far from the time at which the service last ran, nothing is erased until you confirm the clock.
    """
    now = datetime.now(UTC)
    with open_customer_store(directory) as (settings, store):
        dealer = settings.dealer
        if dry_run:
            with store.read(dealer.id, now) as tx:
                if (problem := clock_problem(tx)) and not clock_is_right:
                    fail(problem)
                done = erasure.disposable(tx, **erase_before(dealer, now))
        else:
            if clock_is_right:
                with store.write(dealer.id, now) as tx:
                    confirm_clock(tx)
            done = erasure.dispose(store, dealer.id, **erase_before(dealer, now), now=now)
            purge(store, dealer.id, **purge_before(dealer, now), now=now)
    ages_in_days = dealer.privacy
    rows = (
        ("Customers of leads, after their last use", str(ages_in_days.keep_leads_days), str(done.leads)),
        ("Texts of consents, after their last event", str(ages_in_days.keep_consents_days), str(done.consents)),
    )
    print_table("Would be erased" if dry_run else "Erased", ("What", "After days #", "Count #"), rows)
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")
