"""The conforming dealer: the demo dealer with a small stock, which answers in this process without a network."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dealer_agent.bootstrap import application
from dealer_agent.bootstrap.composition import serving
from dealer_agent.checker.events import Event, Verdict
from dealer_agent.checker.requirement import PROFILES
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.client.signing import Signer
from dealer_agent.config import load_settings
from dealer_agent.config.installation import load_served
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.http_signatures.keys import private_key_of
from dealer_agent.self_test.defect import LISTENS_AT, Agent, AgentResponse, Breaking, Call
from dealer_agent.self_test.stock import small_stock
from dealer_agent.server.app import DealerApp
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.key_sets import pin_sources, put_keys
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

NO_LIMITS = """
[rate_limits]
dealer_information = ""
inventory_facets = ""
inventory_search = ""
inventory_vehicle = ""
lead_submit = ""
malformed_leads = ""
address = ""
health = ""
bad_tokens = ""
unknown_leads = ""
"""
QUIET = '[logs]\naccess = false\nlevel = "error"\n'
PUBLISHED = '[published_versions]\nserved = ["1.0", "1.1", "1.2", "1.3", "next"]\n'
ASKS_FOR_TOKENS = """
[auth]
mode = "bearer"

[[auth.issuers]]
issuer = "https://login.invalid"
token_url = "https://login.invalid/token"
"""
SIGNED_AS = "https://checker.invalid"
"""The origin of the agent that signs. Nobody can fetch its key."""
CLIENT = ("198.51.100.7", 40_000)
"""The address that all requests come from."""


def make_dealer(folder: Path, *, tables: str = "", dealer: str | None = None, feed: bytes | None = b"") -> None:
    """Writes a dealer's folder and imports its stock. `tables` are added to dealer.toml, instead of its own service.

    `dealer` is another dealer.toml, and `feed` another stock than the small one; None imports nothing.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = dealer or demo_dealer_toml().replace("[service]\nopen = true\n", "")
    (folder / "dealer.toml").write_text(settings + NO_LIMITS + QUIET + tables, "utf-8")
    create_key_file(folder)
    loaded = load_settings(folder, {})
    migrate(loaded.database_url)
    if feed is None:
        return
    units = read_feed(feed or small_stock())
    with Store.open(loaded.database_url, loaded.cipher) as store:
        _publish_key(store, loaded.dealer.id)
        import_feed(store, loaded.dealer, units, source="inventory.csv", at=datetime.now(UTC), accept=EVERY_CHECK)


@cache
def signer() -> Signer:
    """The agent as which a run signs. The conforming dealer knows its key."""
    return Signer(private_key_of(Ed25519PrivateKey.generate()), SIGNED_AS)


def _publish_key(store: Store, dealer_id: str) -> None:
    """Stores the key of the signer as one that was fetched."""
    now = datetime.now(UTC)
    with store.write(dealer_id) as tx:
        pin_sources(tx, [SIGNED_AS], now + timedelta(days=1))
        put_keys(tx, SIGNED_AS, directory_document([signer().key]), now + timedelta(days=1))


def make_token(folder: Path) -> str:
    """A new token of a dealer, for the checker."""
    fresh, settings = new_token(), load_settings(folder, {})
    with Store.open(settings.database_url, settings.cipher) as store, store.write(settings.dealer.id) as tx:
        return fresh.text(create_token(tx, "Checker", fresh.secret_hash))


class ConformingDealer:
    """A running dealer. Its answers are remembered from run to run, because only leads change something.

    `token` is a bearer token, if the dealer asks for tokens.
    """

    def __init__(self, app: DealerApp, token: str | None = None) -> None:
        self.token = token
        # By the request, and how often it was sent before in its run.
        self._known: dict[tuple[Call, int], AgentResponse] = {}
        self._transport = httpx.ASGITransport(app, client=CLIENT)

    def for_one_run(self) -> Agent:
        """Answers the requests of one run. A repeated request is answered again."""
        times: Counter[Call] = Counter()

        async def answer(call: Call) -> AgentResponse:
            times[call] += 1
            key = (call, times[call])
            if key not in self._known:
                fresh = await self._answer(call)
                if call.skill == "lead.submit" and fresh.error is None:
                    return fresh
                self._known[key] = fresh
            return self._known[key]

        return answer

    async def check(self, options: Options, defect: Breaking | None = None, url: str = LISTENS_AT) -> list[Verdict]:
        """The verdicts of a whole run on the dealer, with a defect between. All profiles are checked.

        Raises NotChecked if there is no card.
        """
        options = replace(options, profiles=PROFILES)
        async with httpx.AsyncClient(transport=_Between(self.for_one_run(), defect)) as client:
            return await run_checks(url, options, client, _ignore)

    async def _answer(self, call: Call) -> AgentResponse:
        request = httpx.Request(call.method, call.url, headers=list(call.headers), content=call.body)
        response = await self._transport.handle_async_request(request)
        body = await response.aread()
        return AgentResponse(response.status_code, _texts(response.headers), body)


@asynccontextmanager
async def running(folder: Path, token: str | None = None) -> AsyncIterator[ConformingDealer]:
    """The dealer of a folder for an `async with` block."""
    installation = load_served(folder, {}, LISTENS_AT)
    app = application(installation)
    async with serving(installation) as app.dealers:
        yield ConformingDealer(app, token)


class _Between(httpx.AsyncBaseTransport):
    """The checker's connection to a dealer, with a defect between."""

    def __init__(self, agent: Agent, defect: Breaking | None) -> None:
        self._agent = agent
        self._defect = defect

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx."""
        call = Call(request.method, str(request.url), _texts(request.headers), await request.aread())
        answer = await (self._agent(call) if self._defect is None else self._defect(call, self._agent))
        return httpx.Response(answer.status, headers=list(answer.headers), stream=httpx.ByteStream(answer.body))


def _texts(headers: httpx.Headers) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.raw)


def _ignore(_: Event) -> None:
    """The verdicts are enough."""
