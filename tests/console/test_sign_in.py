"""Sign-in with a password and a code, and with a recovery code; sessions; who may try how often."""

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
import pyotp
import pytest
from tests.console.browsers import DEALER, ORIGIN, ROOT, Browser, add_member, sign_in
from tests.console.conftest import SERVICE, SignedIn
from tests.server.dealership import NO_LIMITS, Dealership, run_dealership, set_up

from dealer_agent.console.challenges import SECONDS, is_challenge, new_challenge
from dealer_agent.console.requests import safe_next
from dealer_agent.server.tokens import hash_secret
from dealer_agent.storage.console.sign_ins import (
    IDLE,
    LONGEST_SESSION,
    MOST_SESSIONS,
    prove_session,
    start_session,
    touch_session,
)

pytestmark = pytest.mark.outside_protocol("console")

PASSWORD = "correct horse battery"


class Known(NamedTuple):
    """A person with a password. `secret` is that of the one-time codes."""

    browser: Browser
    email: str
    secret: str

    def code(self, steps: int = 1) -> str:
        """The code of the next half minute, which is good already, or of another one."""
        return pyotp.TOTP(self.secret).at(int(time.time()) + 30 * steps)


@pytest.fixture
def sam(signed_in: SignedIn) -> Known:
    """A salesperson with a password, who used the code of this half minute."""
    browser = signed_in("sales", email="sam@example.com")
    page = browser.get("/console/account/password").text
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page)
    assert secret is not None
    known = Known(browser, "sam@example.com", secret[1])
    number = re.search(r'name="number" value="([^"]+)"', page)
    assert number is not None
    form = {"password": PASSWORD, "code": known.code(0), "number": number[1]}
    saved = browser.post("/console/account/password", form)
    assert saved.headers["location"].endswith("said=password-set")
    return known


def try_password(on: Dealership, email: str, password: str, code: str, **more: str) -> httpx.Response:
    return Browser(on).post("/console/sign-in", {"email": email, "password": password, "code": code, **more})


def test_a_password_opens_the_console_together_with_a_code(console: Dealership, sam: Known) -> None:
    answer = try_password(console, "SAM@example.com", PASSWORD, sam.code(), next=f"{ROOT}/stock")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/stock")
    cookie = answer.headers["set-cookie"]
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert cookie.startswith("__Host-")


def test_a_code_works_once(console: Dealership, sam: Known) -> None:
    code = sam.code()
    assert try_password(console, sam.email, PASSWORD, code).status_code == 303
    assert try_password(console, sam.email, PASSWORD, code).status_code == 401
    assert try_password(console, sam.email, PASSWORD, sam.code(0)).status_code == 401, "an older one is used up, too"


def test_a_refused_sign_in_does_not_say_what_was_wrong(console: Dealership, sam: Known) -> None:
    for email, password, code in (
        ("sam@example.com", PASSWORD, "000000"),
        ("sam@example.com", PASSWORD, ""),
        ("sam@example.com", "wrong password", None),
        ("nobody@example.com", PASSWORD, None),
        ("not an address", PASSWORD, None),
        ("", "", ""),
    ):
        answer = try_password(console, email, password, sam.code() if code is None else code)
        assert answer.status_code == 401
        assert "Check the e-mail address, the password and the code." in answer.text
        assert "set-cookie" not in answer.headers
    # A wrong password has used no code up.
    assert try_password(console, sam.email, PASSWORD, sam.code()).status_code == 303


def test_a_person_without_a_password_cannot_sign_in_with_an_empty_one(console: Dealership, signed_in: SignedIn) -> None:
    signed_in("owner")
    assert try_password(console, "owner@example.com", "", "").status_code == 401


def test_a_recovery_code_works_once(console: Dealership, sam: Known) -> None:
    codes = re.findall(r"<code>([a-z2-7-]{19})</code>", sam.browser.post("/console/account/codes").text)
    assert len(set(codes)) == 10
    used = {"email": sam.email, "code": codes[0].upper()}
    first = Browser(console).post("/console/recover", used)
    assert (first.status_code, first.headers["location"]) == (303, "/console/account")
    assert Browser(console).post("/console/recover", used).status_code == 401
    assert try_password(console, sam.email, PASSWORD, codes[1]).status_code == 303, "in place of a one-time code"
    newer = re.findall(r"<code>([a-z2-7-]{19})</code>", sam.browser.post("/console/account/codes").text)
    older = Browser(console).post("/console/recover", {"email": sam.email, "code": codes[2]})
    assert older.status_code == 401, "new codes replace the older ones"
    assert newer


def test_attempts_are_limited_for_an_address_and_for_a_person(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS + 'sign_ins = "3/minute"\n', stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        form = {"email": "sam@example.com", "password": "wrong", "code": "1"}
        for count in range(4):
            answer = Browser(opened).post("/console/sign-in", form)
            assert answer.status_code == (401 if count < 3 else 429)
        opened.client_address = "203.0.113.9"
        assert Browser(opened).post("/console/sign-in", form).status_code == 429, "the person, from another address"
        other = form | {"email": "kim@example.com"}
        assert Browser(opened).post("/console/sign-in", other).status_code == 401


def test_a_session_ends_without_use_and_when_it_is_ended(console: Dealership, signed_in: SignedIn) -> None:
    one, two = signed_in(), signed_in()
    page = one.get("/console/account").text
    sessions = re.findall(r'name="session" value="(\w{26})"', page)
    assert len(sessions) == 2
    with console.store() as store, store.write(DEALER, datetime.now(UTC) - IDLE) as tx:
        touch_session(tx, hash_secret(two.secret))
    assert two.get("/console/account").headers["location"].startswith("/console/sign-in")
    assert one.get("/console/account").status_code == 200
    (own,) = re.findall(r'name="session" value="(\w{26})"', one.get("/console/account").text)
    one.post("/console/account/session/end", {"session": own})
    assert one.get("/console/account").status_code == 303


def test_nobody_ends_the_session_of_another_person(signed_in: SignedIn) -> None:
    one, two = signed_in(), signed_in("sales", email="sam@example.com")
    (session,) = re.findall(r'name="session" value="(\w{26})"', two.get("/console/account").text)
    one.post("/console/account/session/end", {"session": session})
    assert two.get("/console/account").status_code == 200


def test_a_person_has_a_bounded_number_of_sessions(console: Dealership, signed_in: SignedIn) -> None:
    browsers = [signed_in() for _ in range(MOST_SESSIONS + 1)]
    assert browsers[0].get("/console/account").status_code == 303
    assert browsers[-1].get("/console/account").status_code == 200


def test_a_sign_in_never_takes_a_secret_from_the_browser(console: Dealership, sam: Known) -> None:
    planted = Browser(console, "planted-by-somebody")
    form = {"email": sam.email, "password": PASSWORD, "code": sam.code()}
    answer = planted.post("/console/sign-in", form)
    assert answer.status_code == 303
    assert "planted-by-somebody" not in answer.headers["set-cookie"]
    assert planted.get("/console/account").status_code == 303


def test_the_last_way_to_sign_in_stays(sam: Known, signed_in: SignedIn) -> None:
    refused = signed_in("owner").post("/console/account/passkey/remove", {"passkey": "AAAA"})
    assert refused.status_code == 422
    assert "last way" in refused.text
    assert sam.browser.post("/console/account/passkey/remove", {"passkey": "AAAA"}).status_code == 404


def test_who_you_are_is_asked_again_with_password_and_code(console: Dealership, sam: Known) -> None:
    with console.store() as store, store.write(DEALER, datetime.now(UTC) - timedelta(hours=1)) as tx:
        prove_session(tx, hash_secret(sam.browser.secret))
    asked = sam.browser.get("/console/account/password")
    assert asked.headers["location"].startswith("/console/prove")
    form = {"password": PASSWORD, "code": sam.code(), "next": "/console/account/password"}
    assert sam.browser.post("/console/prove", form).headers["location"] == "/console/account/password"
    assert sam.browser.get("/console/account/password").status_code == 200


@pytest.mark.parametrize(
    ("sent", "leads_to"),
    [
        ("/console/d/one/leads?state=sent", "/console/d/one/leads?state=sent"),
        ("//evil.example/console", "/console"),
        ("https://evil.example/console", "/console"),
        ("/console/../elsewhere", "/console"),
        ("/console/d/one\r\nset-cookie: a=b", "/console"),
        ("/consoles", "/console"),
        ("/console//evil.example", "/console"),
        ("javascript:alert(1)", "/console"),
        ("", "/console"),
    ],
)
def test_a_sign_in_leads_to_a_page_of_the_console_only(sent: str, leads_to: str) -> None:
    assert safe_next(sent, "/console") == leads_to


def test_a_challenge_is_for_one_purpose_and_some_minutes() -> None:
    key, now = bytes(32), 1_000_000.0
    challenge = new_challenge(key, "sign in", now)
    assert is_challenge(key, "sign in", challenge, now + SECONDS)
    assert not is_challenge(key, "sign in", challenge, now + SECONDS + 1)
    assert not is_challenge(key, "sign in", challenge, now - 1)
    assert not is_challenge(key, "prove", challenge, now)
    assert not is_challenge(bytes(31) + b"1", "sign in", challenge, now)
    assert not is_challenge(key, "sign in", challenge[:-1], now)
    assert not is_challenge(key, "sign in", b"", now)


def test_without_https_the_console_answers_on_the_machine_itself_only(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path / "dealer", NO_LIMITS, stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        here = {"host": "localhost:8080"}
        opened.client_address = "127.0.0.1"
        assert opened.request("GET", "/console/sign-in", headers=here).status_code == 200
        forwarded = here | {"x-forwarded-for": "203.0.113.9"}
        for headers in ({"host": "dealer.example"}, forwarded, {"host": "localhost.evil.example"}):
            assert opened.request("GET", "/console/sign-in", headers=headers).status_code == 403
        opened.client_address = "203.0.113.9"
        assert opened.request("GET", "/console/sign-in", headers=here).status_code == 403


def test_a_console_that_is_switched_off_is_not_there(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS + "[console]\nenabled = false\n", stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        assert Browser(opened).get("/console/sign-in").status_code == 404


def test_a_page_is_never_kept_by_a_browser_and_names_no_customer(console: Dealership, signed_in: SignedIn) -> None:
    answer = signed_in().get("/console/account")
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert ORIGIN not in answer.text


def test_a_member_of_no_dealer_has_no_page(console: Dealership) -> None:
    with console.store() as store:
        browser = sign_in(console, store, add_member(store, "nothing", email="ex@example.com"))
    assert browser.get(ROOT).status_code in (403, 404)


def test_one_address_cannot_keep_a_person_out(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS + 'sign_ins = "3/minute"\n', stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        for number in range(8):
            form = {"email": f"other-{number}@example.com" if number < 3 else "sam@example.com", "password": "wrong"}
            Browser(opened).post("/console/sign-in", form | {"code": "1"})
        opened.client_address = "203.0.113.9"
        form = {"email": "sam@example.com", "password": "wrong", "code": "1"}
        assert Browser(opened).post("/console/sign-in", form).status_code == 401, "no attempt counted against sam"


def test_slow_forms_of_one_address_keep_nobody_waiting(console: Dealership, signed_in: SignedIn) -> None:
    owner, sent = signed_in(), anyio.Event()

    async def slow(_: int) -> None:
        first = True

        async def receive() -> dict[str, object]:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": b"email=", "more_body": True}
            await sent.wait()
            return {"type": "http.disconnect"}

        async def send(_: object) -> None:
            return

        headers = [(b"host", b"agent.test"), (b"origin", ORIGIN.encode())]
        scope = {"type": "http", "method": "POST", "path": "/console/sign-in", "query_string": b"", "headers": headers}
        await console.app({**scope, "client": ("198.51.100.99", 1), "state": {}}, receive, send)

    tasks = [console.portal.start_task_soon(slow, number) for number in range(40)]
    assert owner.get("/console/account").status_code == 200
    console.portal.call(sent.set)
    for task in tasks:
        task.result(30)


def test_a_new_password_ends_all_other_sessions(console: Dealership, sam: Known) -> None:
    form = {"email": sam.email, "password": PASSWORD, "code": sam.code()}
    other = Browser(console)
    cookie = other.post("/console/sign-in", form).headers["set-cookie"]
    other.secret = cookie.partition("=")[2].partition(";")[0]
    assert other.get("/console/account").status_code == 200
    page = sam.browser.get("/console/account/password").text
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page)
    number = re.search(r'name="number" value="([^"]+)"', page)
    assert secret is not None
    assert number is not None
    assert secret[1] != sam.secret, "each set-up has a secret of its own"
    new = {"password": PASSWORD + "!", "code": Known(other, sam.email, secret[1]).code(), "number": number[1]}
    assert sam.browser.post("/console/account/password", new).status_code == 303
    assert other.get("/console/account").status_code == 303
    assert sam.browser.get("/console/account").status_code == 200


def test_a_session_ends_at_its_age_however_often_it_is_used(console: Dealership) -> None:
    with console.store() as store:
        person = add_member(store, "owner")
        old = datetime.now(UTC) - LONGEST_SESSION
        with store.write(DEALER, old) as tx:
            start_session(tx, person.person_id, hash_secret("old"), address="", browser="", proved=True)
        with store.write(DEALER) as tx:
            touch_session(tx, hash_secret("old"))
    assert Browser(console, "old").get("/console/account").status_code == 303
