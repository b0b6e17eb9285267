"""`python -m benchmarks.platform_imports FOLDER DEALER ...`: imports feeds of dealers of an installation in turn, with
other prices each time, until it is stopped. Writes a line for each import."""

import os
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec

from benchmarks.dealership import feed_units
from benchmarks.many_dealers import COLD, dealer_document
from dealer_agent.config.installation import load_installation
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.store import Store


def main() -> None:
    """Imports until SIGTERM."""
    folder, *dealers = sys.argv[1:]
    loaded = load_installation(Path(folder), os.environ)
    records = [{name: value for name, value in unit.items() if name != "rooftop"} for unit in feed_units(COLD[0])]
    with Store.open(loaded.database_url, loaded.cipher, many_dealers=True) as store:
        for number in count():
            dealer_id = dealers[number % len(dealers)]
            for place, record in enumerate(records):
                record["price"] = 10_000 + (number * 7 + place) % 50_000
            profile = loaded.dealer_settings(dealer_document(dealer_id).decode()).dealer
            feed, at = read_feed(msgspec.json.encode(records)), datetime.now(UTC)
            # The prices of these files jump, which the checks would refuse.
            import_feed(store, profile, feed, source="feed.json", at=at, accept=EVERY_CHECK)
            sys.stdout.write(f"{dealer_id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
