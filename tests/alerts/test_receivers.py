"""What receivers of alerts get: signed webhooks and mails (docs/how-to/alerts.md)."""

import asyncio
import base64
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.alerts.watched import ENV, OWNER, SECRET, make_watch
from tests.delivery.receivers import NOBODY, HttpReceiver, MailReceiver, always, receiving_http, receiving_mail

from dealer_agent.alerts.conditions import CONDITIONS
from dealer_agent.alerts.rules import AlertMessage
from dealer_agent.alerts.texts import Sender, mail_text, sentence_of
from dealer_agent.config import SettingsError
from dealer_agent.config.alert_settings import AlertSettings, webhook_secret
from dealer_agent.config.loading import read_dealer_file
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.alerts import AlertState

pytestmark = pytest.mark.outside_protocol("alerts")

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
FAR = Path("/srv/ridgeline")
OPEN = AlertState("deliveries_failing", "North / crm", started_at=NOW, amount=3, since=NOW)
SENDER = Sender("ridgeline", "Ridgeline Motors", "America/Chicago", "dealer.toml")
DEALER_TOML = """
id = "test-motors"
name = "Test Motors"
feed_price = "advertised"

[[rooftops]]
name = "North"
timezone = "America/Chicago"

[alerts]
"""


def send(watch: Any, receiver: str, message: AlertMessage, now: datetime) -> None:
    document = watch.receivers.message(message, now).documents[receiver]
    asyncio.run(watch.receivers.send(receiver, "01MESSAGE", document, now))


def test_the_documented_example_verifies_a_webhook(tmp_path: Path) -> None:
    example = next(each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "is_ours" in each)
    names: dict[str, Any] = {}
    exec(example, names)
    is_ours = names["is_ours"]
    with receiving_http(HttpReceiver(always("take"))) as hook:
        watch = make_watch(tmp_path, NOBODY, hook.url)
        send(watch, "webhook", AlertMessage("change", started=(OPEN,)), datetime.now(UTC))
    (posted,) = hook.taken
    assert is_ours(posted.headers, posted.body, SECRET)
    assert not is_ours(posted.headers, posted.body, "whsec_" + base64.b64encode(bytes(32)).decode())
    assert not is_ours(posted.headers, posted.body + b" ", SECRET)
    assert not is_ours(posted.headers | {"webhook-id": "other"}, posted.body, SECRET)
    old = str(int(posted.headers["webhook-timestamp"]) - 301)
    assert not is_ours(posted.headers | {"webhook-timestamp": old}, posted.body, SECRET)
    documented = set(re.findall(r"^\| `(webhook-[a-z]+)` \|", PAGE, re.MULTILINE))
    assert documented == {name for name in posted.headers if name.startswith("webhook-")}


def test_the_signature_is_that_of_the_published_example_of_standard_webhooks() -> None:
    """The example of the specification and of its libraries."""
    from dealer_agent.alerts.receivers import WebhookReceiver

    secret = webhook_secret(AlertSettings(), {"DEALER_AGENT_ALERTS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    receiver = WebhookReceiver("https://example.com", secret, AddressRule())
    headers = receiver.signature(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', datetime.fromtimestamp(1614265330, UTC)
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_webhook_that_redirects_gets_no_alert(tmp_path: Path) -> None:
    refusal = b"HTTP/1.1 302 Found\r\nLocation: /leads\r\nContent-Length: 0\r\n\r\n"
    with receiving_http(HttpReceiver(always("reject"), refusal=refusal)) as hook:
        watch = make_watch(tmp_path, NOBODY, hook.url)
        with pytest.raises(NotDelivered, match="answered 302"):
            send(watch, "webhook", AlertMessage("test"), NOW)
    assert hook.taken == []
    with pytest.raises(NotDelivered, match="cannot be reached"):
        send(make_watch(tmp_path, NOBODY, f"http://127.0.0.1:{NOBODY}/"), "webhook", AlertMessage("test"), NOW)


def test_the_webhook_of_a_dealer_of_an_installation_reaches_no_private_address(tmp_path: Path) -> None:
    with receiving_http(HttpReceiver(always("take"))) as hook:
        watch = make_watch(tmp_path, NOBODY, hook.url, rule=AddressRule())
        with pytest.raises(NotDelivered, match="has an address that is not public"):
            send(watch, "webhook", AlertMessage("test"), NOW)
        assert hook.connections == 0


def test_a_mail_says_what_is_wrong_since_when_and_what_to_do(tmp_path: Path) -> None:
    with receiving_mail(MailReceiver(always("take"))) as mail:
        message = AlertMessage("change", started=(OPEN._replace(detail="The mail server refused the login."),))
        send(make_watch(tmp_path, mail.port, where=Where(FAR)), "mail", message, NOW)
    (mailed,) = mail.taken
    assert mailed.recipients == [OWNER]
    assert str(mailed.message["Message-ID"]) == "<01MESSAGE@dealer.example.com>"
    assert mailed.message["Auto-Submitted"] == "auto-generated"
    body = mailed.message.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == (
        "Leads do not reach North / crm. Waiting: 3 deliveries, the oldest since\n"
        "Monday, March 2, 2026, 10:00 AM CST.\n"
        "  The mail server refused the login.\n\n"
        "What to do: See each:\n"
        f"  dealer-agent deliveries list --dir {FAR} --state waiting\n"
        "When the problem is solved:\n"
        f"  dealer-agent deliveries retry --dir {FAR} --all\n\n"
        "Times are those of America/Chicago. Who gets alerts: [alerts] in\n"
        "dealer.toml. All alerts:\n"
        f"  dealer-agent alerts list --dir {FAR}\n"
    )


def test_a_digest_lists_what_is_open_and_counts_what_came_and_went() -> None:
    ended = OPEN._replace(condition="feed_late", subject="inventory", ended_at=NOW, unreported=7)
    text = mail_text(AlertMessage("digest", ended=(ended,), open=(OPEN._replace(unreported=3),)), SENDER)
    assert text.subject == "Ridgeline Motors: daily digest, 1 open"
    words = " ".join(text.text.split())
    assert "The inventory arrived again." in words
    assert "began or ended 7 times" in words
    assert "- Leads do not reach North / crm." in words
    assert "began or ended 3 times" in words
    assert "\n\n\n" not in text.text


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_command_of_an_advice_is_a_line_of_its_own(condition: str) -> None:
    advice = CONDITIONS[condition].advice
    for line in advice.splitlines():
        assert line.startswith("dealer-agent ") or "dealer-agent " not in line


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_has_its_sentences(condition: str) -> None:
    state = AlertState(condition, "SUBJECT", started_at=NOW, amount=1204, since=NOW)
    for each in (state, state._replace(ended_at=NOW)):
        sentence = sentence_of(each, "America/Chicago")
        assert sentence.endswith(".")
        assert "{" not in sentence
    assert f"| `{condition}` |" in PAGE


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('mail = ["nobody"]', "not an e-mail address"),
        ('webhook_url = "http://alerts.example.com/"', "must begin with https://"),
        ('webhook_url = "https://user:secret@example.com/"', "no user name and no password"),
        ('off = ["feed_lat"]', "did you mean feed_late?"),
        ("feed_late_hours = 0", "the least is 1"),
    ],
)
def test_malformed_receivers_in_settings_are_refused(toml: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        read_dealer_file(DEALER_TOML + toml)


@pytest.mark.parametrize("secret", ["", "secret", "whsec_", "whsec_%%%", "whsec_c2hvcnQ="])
def test_a_secret_that_signs_nothing_is_refused_with_a_command_that_makes_one(secret: str) -> None:
    with pytest.raises(ValueError, match="DEALER_AGENT_ALERTS_SECRET") as refused:
        webhook_secret(AlertSettings(), {"DEALER_AGENT_ALERTS_SECRET": secret})
    (program,) = re.findall(r'python3 -c "(.*)"', str(refused.value))
    printed: list[str] = []
    exec(program, {"print": printed.append})
    assert webhook_secret(AlertSettings(), {"DEALER_AGENT_ALERTS_SECRET": printed[0]})
    assert webhook_secret(AlertSettings(), ENV) == bytes(range(32))
