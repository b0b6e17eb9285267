"""The settings in the console: the file stays the one source, and keeps its comments."""

import asyncio
import re
from html import unescape

import pytest
from tests.acceptance.running import eventually
from tests.console.browsers import ROOT, Browser
from tests.console.conftest import SignedIn
from tests.server.dealership import Dealership

from dealer_agent.operations.settings_changes import FileSettings
from dealer_agent.reference_pages import settings_sections
from dealer_agent.server.service import Service

pytestmark = pytest.mark.outside_protocol("console")


def texts_of(page: str) -> dict[str, str]:
    """The fields of the form that stores settings."""
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    version = re.search(r'name="version" value="([^"]+)"', page)
    assert text is not None
    assert version is not None
    return {"text": unescape(text[1]), "version": version[1]}


def change(browser: Browser, path: str, value: str) -> str:
    answer = browser.post(f"{ROOT}/settings/change", {"path": path, "value": value})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_change_is_shown_before_it_is_saved_and_the_service_uses_it(console: Dealership, signed_in: SignedIn) -> None:
    owner, path = signed_in(), console.folder / "dealer.toml"
    path.write_text(
        path.read_text("utf-8").replace('name = "Test Motors"\n', 'name = "Test Motors" # as on the sign\n')
    )
    name = "Best Motors"
    shown = change(owner, "name", name)
    assert "Best Motors&#34; # as on the sign" in shown
    assert "Best Motors" not in path.read_text("utf-8")
    saved = owner.post(f"{ROOT}/settings/save", texts_of(shown) | {"note": "new name"})
    assert saved.headers["location"].endswith("said=settings-saved")
    assert 'name = "Best Motors" # as on the sign' in path.read_text("utf-8")
    eventually(f"the name is {name}", lambda: console.ask("dealer.information")["name"] == name)
    history = owner.get(f"{ROOT}/settings/history").text
    assert history.index("new name") < history.index("as it was in the file")
    before = owner.get(f"{ROOT}/settings/history/1").text
    again = owner.post(f"{ROOT}/settings/preview", texts_of(before))
    owner.post(f"{ROOT}/settings/save", texts_of(again.text))
    assert 'name = "Test Motors" # as on the sign' in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("id", "other-motors", "must stay test-motors"),
        ("rooftops.0.timezone", "America/Chicgo", "did you mean America/Chicago?"),
        ("rooftops.0.fees.0.amount", "many", "many"),
        ("name", '"not closed', "This is not a value of TOML: write text"),
        ("rate_limits.address", "often", "is not a rate limit"),
        ("mail.password_env", "DATABASE_URL", "is for the service itself"),
    ],
)
def test_wrong_settings_change_nothing(
    shared_console: Dealership, signed_in_there: SignedIn, path: str, value: str, says: str
) -> None:
    before = (shared_console.folder / "dealer.toml").read_bytes()
    refused = signed_in_there().post(f"{ROOT}/settings/change", {"path": path, "value": value})
    assert refused.status_code == 422
    assert says in unescape(refused.text)
    assert (shared_console.folder / "dealer.toml").read_bytes() == before


def test_two_people_do_not_overwrite_each_other(console: Dealership, signed_in: SignedIn) -> None:
    one, two = signed_in(), signed_in("owner", email="two@example.com")
    first, second = change(one, "name", "One"), change(two, "name", "Two")
    assert one.post(f"{ROOT}/settings/save", texts_of(first)).status_code == 303
    refused = two.post(f"{ROOT}/settings/save", texts_of(second))
    assert refused.status_code == 422
    assert "meanwhile" in refused.text
    assert 'name = "One"' in (console.folder / "dealer.toml").read_text("utf-8")


def test_a_person_edits_the_file_beside_the_console(console: Dealership, signed_in: SignedIn) -> None:
    owner, path = signed_in(), console.folder / "dealer.toml"
    shown = change(owner, "name", "One")
    path.write_text(path.read_text("utf-8").replace("Welcome to", "Hello from"))
    assert owner.post(f"{ROOT}/settings/save", texts_of(shown)).status_code == 422
    assert "Hello from" in path.read_text("utf-8"), "the edit in the file is not lost"


def test_every_setting_of_the_reference_has_a_page(signed_in_there: SignedIn) -> None:
    owner = signed_in_there()
    assert len(settings_sections()) > 30
    for section in settings_sections():
        name = ".".join(section.path) or "top"
        assert owner.get(f"{ROOT}/settings?section={name}").status_code == 200, name


def test_the_lines_of_prices_are_shown_and_saved(console: Dealership, signed_in: SignedIn) -> None:
    owner, path = signed_in(), console.folder / "dealer.toml"
    line = '[[pricing.lines]]\nlabel = "Title"\nkind = "title"\npayee = "government"\namount = "85.50"\n'
    text = texts_of(owner.get(f"{ROOT}/settings/file").text)
    shown = owner.post(f"{ROOT}/settings/preview", text | {"text": text["text"] + "\n" + line})
    owner.post(f"{ROOT}/settings/save", texts_of(shown.text))
    page = unescape(owner.get(f"{ROOT}/settings?section=pricing.lines").text)
    assert '<code>"85.50"</code>' in page
    owner.post(f"{ROOT}/settings/save", texts_of(change(owner, "pricing.lines.0.amount", "86")))
    assert 'amount = "86"\n' in path.read_text("utf-8"), "what a person writes without quotes stays exact"
    owner.post(f"{ROOT}/settings/save", texts_of(change(owner, "pricing.currency", "CAD")))
    assert console.ask("dealer.information")["name"] == "Test Motors"
    refused = owner.post(f"{ROOT}/settings/change", {"path": "pricing.lines.0.amount", "value": "many"})
    assert (refused.status_code, "must be an amount" in unescape(refused.text)) == (422, True)
    eventually("the service uses the lines", lambda: console.service.settings.pricing.currency == "CAD")


def test_a_running_service_says_which_settings_need_a_start(signed_in_there: SignedIn) -> None:
    owner = signed_in_there()
    shown = change(owner, "rate_limits.address", "100/minute")
    saved = owner.post(f"{ROOT}/settings/save", texts_of(shown))
    assert saved.headers["location"].endswith("said=settings-saved-restart")


def test_what_is_saved_while_the_dealer_is_opened_again_is_used_too(
    console: Dealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    dealers = console.app.dealers
    open_one, names = dealers.open_dealer, iter(["Second Motors"])

    def save(name: str) -> None:
        with console.store() as store:
            settings = FileSettings(console.folder, store, "test-motors")
            current = settings.current()
            text = re.sub(r'(?m)^name = ".*"$', f'name = "{name}"', current.text, count=1)
            settings.save(text, expected=current.version, actor="", note="")

    async def open_late(dealer_id: str) -> Service:
        # The file has been read for this opening. Somebody saves before it begins.
        for name in names:
            await asyncio.to_thread(save, name)
        return await open_one(dealer_id)

    monkeypatch.setattr(dealers, "open_dealer", open_late)
    save("First Motors")
    eventually("the name is the second", lambda: console.ask("dealer.information")["name"] == "Second Motors")
