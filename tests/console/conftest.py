"""Fixtures: `console` is a running dealership with an https address, and `signed_in` gives browsers of its people."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.console.browsers import ORIGIN, Browser, add_member, sign_in
from tests.server.conftest import stocked as stocked
from tests.server.dealership import NO_LIMITS, Dealership, run_dealership, set_up

SERVICE = f'[service]\npublic_url = "{ORIGIN}"\n'
SignedIn = Callable[..., Browser]


@pytest.fixture
def console(tmp_path: Path, stocked: Path) -> Iterator[Dealership]:
    """A dealership of a test's own."""
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS, stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        yield opened


@pytest.fixture
def signed_in(console: Dealership) -> Iterator[SignedIn]:
    """The browser of a person with a role, who has just proved who they are."""
    with console.store() as store:

        def of(role: str = "owner", *, email: str = "", rooftops: tuple[str, ...] = (), proved: bool = True) -> Browser:
            person = add_member(store, role, email=email, rooftops=rooftops)
            return sign_in(console, store, person, proved=proved)

        yield of
