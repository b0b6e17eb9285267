"""The settings in the console: the file stays the one source, and keeps its comments."""

import re
from html import unescape

import pytest
from tests.acceptance.running import eventually
from tests.console.browsers import ROOT, Browser
from tests.console.conftest import SignedIn
from tests.server.dealership import Dealership

from dealer_agent.reference_pages import settings_sections

pytestmark = pytest.mark.outside_protocol("console")


def texts_of(page: str) -> dict[str, str]:
    """The fields of the form that stores settings."""
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    version = re.search(r'name="version" value="([^"]+)"', page)
    assert text is not None
    assert version is not None
    return {"text": unescape(text[1]), "version": version[1]}


def change(browser: Browser, place: str, value: str) -> str:
    answer = browser.post(f"{ROOT}/settings/change", {"place": place, "value": value})
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
    ("place", "value", "says"),
    [
        ("id", "other-motors", "must stay test-motors"),
        ("rooftops.0.timezone", "America/Chicgo", "did you mean America/Chicago?"),
        ("rooftops.0.fees.0.amount", "many", "many"),
        ("rate_limits.address", "often", "is not a rate limit"),
        ("mail.password_env", "DATABASE_URL", "is for the service itself"),
    ],
)
def test_wrong_settings_change_nothing(
    console: Dealership, signed_in: SignedIn, place: str, value: str, says: str
) -> None:
    before = (console.folder / "dealer.toml").read_bytes()
    refused = signed_in().post(f"{ROOT}/settings/change", {"place": place, "value": value})
    assert refused.status_code == 422
    assert says in unescape(refused.text)
    assert (console.folder / "dealer.toml").read_bytes() == before


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


def test_every_setting_of_the_reference_has_a_page(signed_in: SignedIn) -> None:
    owner = signed_in()
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
    refused = owner.post(f"{ROOT}/settings/change", {"place": "pricing.lines.0.amount", "value": "many"})
    assert (refused.status_code, "must be an amount" in unescape(refused.text)) == (422, True)
    eventually("the service uses the lines", lambda: console.service.settings.pricing.currency == "CAD")


def test_a_running_service_says_which_settings_need_a_start(signed_in: SignedIn) -> None:
    owner = signed_in()
    shown = change(owner, "rate_limits.address", "100/minute")
    saved = owner.post(f"{ROOT}/settings/save", texts_of(shown))
    assert saved.headers["location"].endswith("said=settings-saved-restart")
