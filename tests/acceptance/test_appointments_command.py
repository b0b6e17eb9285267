"""`dealer-agent appointments`, and the calendar that an intake subscribes to: real service, real command."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import httpx
import msgspec
import pytest
from icalendar import Calendar
from tests.acceptance.asking import ask, asked, error_payload, lead
from tests.acceptance.dealers import FORD_VIN, stocked_dealer
from tests.acceptance.running import Running, command_here, eventually, serving
from tests.delivery.receivers import MailReceiver, always, receiving_mail

pytestmark = pytest.mark.requirement("calendar-bounded")

BOOKS = """
[rooftops.deliver]
notify = ["sales@acceptance.example.com"]
[[rooftops.deliver.directory]]
name = "crm"
path = "leads"
format = "json"
[rooftops.hours.sales]
monday = "09:00-20:00"
tuesday = "09:00-20:00"
wednesday = "09:00-20:00"
thursday = "09:00-20:00"
friday = "09:00-20:00"
saturday = "09:00-20:00"
sunday = "09:00-20:00"
[rooftops.visits.test_drive]
horizon_days = 10
"""
MAIL = """
[mail]
host = "127.0.0.1"
port = {port}
security = "none"
from_address = "leads@acceptance.example.com"
confirm_appointments = true
"""
CHICAGO = ZoneInfo("America/Chicago")
DAY = datetime.now(CHICAGO).date() + timedelta(days=3)


class Staff(NamedTuple):
    """A running service with two booked visits, one of them of a vehicle that is in stock, and one to be arranged."""

    running: Running
    drive: dict[str, Any]
    other: dict[str, Any]
    waiting: dict[str, Any]
    mails: MailReceiver

    def command(self, *arguments: str) -> str:
        """What a command that must work says."""
        done = command_here("appointments", *arguments, "--dir", self.running.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def subscribe(self) -> tuple[str, str]:
        """The path of a new secret address, and the id by which it is revoked."""
        done = command_here("appointments", "calendar", "--subscribe", "--dir", self.running.folder)
        assert done.returncode == 0, done.stderr
        assert "public_url is not set" in done.stderr
        return done.stdout.strip(), done.stderr.split()[1].rstrip(".")

    def leads(self, lead_id: str) -> list[dict[str, Any]]:
        """What the CRM has of a lead."""
        files = [msgspec.json.decode(file.read_bytes()) for file in (self.running.folder / "leads").glob("*.json")]
        return [document for document in files if document["lead_id"] == lead_id]

    def mailed(self, recipient: str) -> list[EmailMessage]:
        return [mailed.message for mailed in list(self.mails.taken) if recipient in mailed.recipients]

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.running.url + path, timeout=120, verify=False)


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staff]:
    with receiving_mail(MailReceiver(always("take"))) as mails:
        yield from opened(tmp_path_factory.mktemp("visits"), mails)


def opened(folder: Path, mails: MailReceiver) -> Iterator[Staff]:
    stocked_dealer(folder, MAIL.format(port=mails.port))
    toml = folder / "dealer.toml"
    # The second rooftop books test drives; it has the Ford.
    text = toml.read_text(encoding="utf-8")
    toml.write_text(text.replace('feed_ids = ["SOUTH"]\n', f'feed_ids = ["SOUTH"]\n{BOOKS}'), encoding="utf-8")
    with serving(folder) as running:

        def book(number: int, clock: int | None, last_name: str, **members: Any) -> dict[str, Any]:
            sent = lead(number, **members)
            sent["customer"] |= {"last_name": last_name}
            sent["appointment"] = {"appointment_type": "test_drive", "notes": "NOTESMARK"}
            if clock is not None:
                at = datetime.combine(DAY, time(clock), CHICAGO)
                sent["appointment"] |= {"appointment_at": at.isoformat()}
            return asked(running.url, "lead.submit", **sent)

        yield Staff(
            running,
            drive=book(1, 10, "Secretname", vehicle_of_interest={"vin": FORD_VIN}),
            other=book(2, 13, "Örtliches"),
            waiting=book(3, None, "Waiting"),
            mails=mails,
        )


def events(calendar: bytes) -> dict[str, Any]:
    """The events of a calendar by their UID."""
    return {str(event["uid"]): event for event in Calendar.from_ical(calendar).walk("VEVENT")}


def entry_of(mail: EmailMessage) -> tuple[Any, Any]:
    """The calendar in a mail, and its one event."""
    (part,) = mail.iter_attachments()
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    calendar = Calendar.from_ical(content)
    (event,) = calendar.walk("VEVENT")
    return calendar, event


def test_the_list_shows_what_to_arrange_and_what_is_booked_on_the_rooftops_clock(staff: Staff) -> None:
    lines = staff.command("list").splitlines()
    told = {lead_id: line for lead_id in (one["lead_id"] for one in staff[1:4]) for line in lines if lead_id in line}
    assert len(told) == 3
    drive = told[staff.drive["lead_id"]]
    assert f"{DAY:%a %Y-%m-%d} 10:00 C" in drive
    for words in ("test drive", "Acceptance Motors South", "confirmed", "Robin Secretname", "2026 Ford F-150"):
        assert words in drive
    assert "requested" in told[staff.waiting["lead_id"]]
    assert "NOTESMARK" not in "\n".join(lines)


def test_the_calendar_names_visit_vehicle_and_lead_and_of_the_customer_first_name_and_initial_only(
    staff: Staff, tmp_path: Any
) -> None:
    file = tmp_path / "visits.ics"
    assert "2 visits written" in staff.command("calendar", "--out", str(file))
    made = file.read_bytes()
    assert made.decode() == staff.command("calendar").replace("\r\n", "\n").replace("\n", "\r\n")
    found = events(made)
    drive = found[staff.drive["appointment"]["appointment_id"]]
    assert str(drive["summary"]) == "Test drive: 2026 Ford F-150, Robin S."
    assert str(found[staff.other["appointment"]["appointment_id"]]["summary"]) == "Test drive: Robin Ö."
    assert drive["dtstart"].dt == datetime.combine(DAY, time(10), CHICAGO)
    assert drive["dtend"].dt - drive["dtstart"].dt == timedelta(hours=1)
    assert staff.drive["lead_id"] in str(drive["description"])
    assert "Acceptance Motors South" in str(drive["location"])
    assert str(drive["status"]) == "CONFIRMED"
    assert len(found) == 2
    for private in (b"Secretname", b"example.com", b"NOTESMARK", b"Waiting", b"Lead number"):
        assert private not in made


def test_who_has_the_secret_address_gets_the_calendar_until_it_is_revoked_and_every_look_is_noted(staff: Staff) -> None:
    path, token_id = staff.subscribe()
    response = staff.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/calendar; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.content == staff.command("calendar").replace("\r\n", "\n").replace("\n", "\r\n").encode()
    looks = command_here("accesses", "list", "--dir", staff.running.folder).stdout
    assert [line.split()[-1] for line in looks.splitlines() if f"token {token_id}" in line] == ["2"]

    secret = path.removeprefix("/calendar/").removesuffix(".ics")
    refused = ask(staff.running.url, "inventory.search", token=f"dat_{token_id}_{secret}")
    assert error_payload(refused)["code"] == "AUTH_REQUIRED", "it opens the calendar and no skill"
    eventually("all that is logged is there", lambda: refused.headers["x-request-id"] in staff.running.stderr())
    assert secret not in staff.running.stderr() + staff.running.said.read_text()

    done = command_here("tokens", "revoke", token_id, "--dir", staff.running.folder)
    assert done.returncode == 0
    eventually("the address is closed", lambda: staff.get(path).status_code == 404)


@pytest.mark.parametrize("path", ["/calendar/x.ics", "/calendar/.ics", "/calendar", "/calendar/x", "/calendar/a/b.ics"])
def test_without_the_secret_there_is_nothing_at_the_address(staff: Staff, path: str) -> None:
    response = staff.get(path)
    assert response.status_code == 404
    assert error_payload(response)["message"] == error_payload(staff.get("/nothing"))["message"]


def test_a_token_for_the_skills_opens_no_calendar(staff: Staff) -> None:
    token = command_here("tokens", "create", "Buyer", "--dir", staff.running.folder).stdout.strip()
    for secret in (token, token.rpartition("_")[2], token.split("_", 2)[2]):
        assert staff.get(f"/calendar/{secret}.ics").status_code == 404


def test_a_cancelled_visit_frees_its_time_and_shows_as_cancelled(staff: Staff) -> None:
    """From here on the tests change what the others look at."""
    path, _ = staff.subscribe()
    appointment_id = staff.drive["appointment"]["appointment_id"]
    wish = {"appointment_type": "test_drive", "appointment_at": staff.drive["appointment"]["confirmed_at"]}
    early = asked(staff.running.url, "lead.submit", **lead(11, appointment=wish))
    assert early["appointment"]["status"] == "proposed"
    eventually("the lead is with the CRM", lambda: staff.leads(staff.drive["lead_id"]))
    said = staff.command("cancel", appointment_id)
    assert f"Visit {appointment_id} is cancelled: " in said
    assert f"The customer gets a mail about visit {appointment_id}." in said
    assert str(events(staff.get(path).content)[appointment_id]["status"]) == "CANCELLED"
    assert appointment_id not in staff.command("list")
    assert "cancelled" in next(line for line in staff.command("list", "--all").splitlines() if appointment_id in line)
    late = asked(staff.running.url, "lead.submit", **lead(12, appointment=wish))
    assert late["appointment"]["status"] == "confirmed"
    for gone, why in ((appointment_id, "is cancelled already"), ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "There is no visit")):
        done = command_here("appointments", "cancel", gone, "--dir", staff.running.folder)
        assert (done.returncode, why in done.stderr) == (1, True)


def test_the_cancelled_visit_comes_to_the_crm_to_people_and_to_the_customer(staff: Staff) -> None:
    """By the running service, from what the command left in the outbox."""
    lead_id, appointment_id = staff.drive["lead_id"], staff.drive["appointment"]["appointment_id"]
    first, again = eventually(
        "it is with the CRM twice",
        lambda: len(found := staff.leads(lead_id)) == 2 and sorted(found, key=lambda lead: lead["status"]),
    )
    assert (first["status"], again["status"]) == ("new", "resend")
    (visit,) = again["appointments"]
    assert (visit["appointment_id"], visit["status"]) == (appointment_id, "cancelled")
    assert visit["times"][0]["start"] == staff.drive["appointment"]["confirmed_at"]
    subject = "Acceptance Motors South: test drive cancelled, Robin Secretname, 2026 Ford F-150"
    people = eventually(
        "people have the mail",
        lambda: [mail for mail in staff.mailed("sales@acceptance.example.com") if mail["Subject"] == subject],
    )
    assert len(people) == 1
    mails = eventually(
        "the customer has both mails", lambda: len(found := staff.mailed("robin1@example.com")) == 2 and found
    )
    confirmed, cancelled = sorted(mails, key=lambda mail: "cancelled" in mail["Subject"])
    (before, booked), (after, off) = entry_of(confirmed), entry_of(cancelled)
    assert (before["method"], after["method"]) == ("PUBLISH", "CANCEL")
    assert booked["uid"] == off["uid"] == appointment_id
    assert int(off["sequence"]) > int(booked["sequence"])
    assert str(off["status"]) == "CANCELLED"
    shown = command_here("deliveries", "list", "--channel", "customer", "--dir", staff.running.folder).stdout
    assert shown.count(" cancel ") == 1


def test_a_visit_can_be_cancelled_without_telling_anybody(staff: Staff) -> None:
    def deliveries() -> int:
        listed = command_here("deliveries", "list", "--lead", staff.other["lead_id"], "--dir", staff.running.folder)
        return listed.stdout.count(staff.other["lead_id"])

    before = deliveries()
    said = staff.command("cancel", staff.other["appointment"]["appointment_id"], "--tell-nobody")
    assert "Nobody is notified" in said
    assert "mail" not in said
    assert deliveries() == before > 0


def test_a_visit_that_was_only_requested_is_confirmed_and_moved_and_everybody_hears_of_it(staff: Staff) -> None:
    lead_id, asked_id = staff.waiting["lead_id"], staff.waiting["appointment"]["appointment_id"]
    early = command_here("appointments", "confirm", asked_id, "--dir", staff.running.folder)
    assert (early.returncode, "--at" in early.stderr) == (1, True)
    said = staff.command("confirm", asked_id, "--at", f"{DAY} 15:00")
    visit_id = said.split()[1]
    assert f"{DAY:%a %Y-%m-%d} 15:00 C" in said
    for words in (f"It replaces visit {asked_id}.", f"The customer gets a mail about visit {visit_id}."):
        assert words in said
    moved = msgspec.json.decode(staff.command("move", visit_id, "--at", f"{DAY}T16:00", "--json"))
    assert (moved["replaces"], moved["status"], moved["mailed"]) == (visit_id, "confirmed", [moved["id"]])
    start = datetime.combine(DAY, time(16), CHICAGO)
    assert datetime.fromisoformat(moved["starts"]) == start

    def at_the_crm() -> bool:
        visits = [each for document in staff.leads(lead_id) for each in document["appointments"]]
        return any((each["appointment_id"], each["status"]) == (moved["id"], "confirmed") for each in visits)

    eventually("the CRM has the new time", at_the_crm)
    eventually("the customer has the mail", lambda: staff.mailed("robin3@example.com"))
    newest = eventually(
        "the customer has the mail about the new time",
        lambda: [mail for mail in staff.mailed("robin3@example.com") if "4:00 PM" in mail["Subject"]],
    )[-1]
    entries = [events(part.get_payload(decode=True)) for part in newest.iter_attachments()]
    assert entries[0][moved["id"]]["dtstart"].dt == start
    assert newest["To"] == "robin3@example.com"


def test_a_visit_that_has_not_begun_is_not_closed(staff: Staff) -> None:
    for command in ("done", "no-show"):
        done = command_here("appointments", command, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--dir", staff.running.folder)
        assert (done.returncode, "no visit" in done.stderr) == (1, True)


def test_a_secret_address_and_a_file_are_not_asked_for_together(staff: Staff) -> None:
    done = command_here("appointments", "calendar", "--subscribe", "--out", "visits.ics", "--dir", staff.running.folder)
    assert (done.returncode, "--out" in done.stderr) == (1, True)


def test_who_guesses_at_secret_addresses_is_soon_refused(staff: Staff) -> None:
    """Wrong ones count as wrong tokens do, 20 a minute. Last: it uses that limit up."""
    # The minute began with the first wrong one of all tests, and may end here: then another 20 are heard.
    guesses = (staff.get(f"/calendar/guess-{number}.ics") for number in range(45))
    refused = next(response for response in guesses if response.status_code != 404)
    assert refused.status_code == 429
    assert error_payload(refused)["code"] == "RATE_LIMITED"
    assert int(refused.headers["retry-after"]) > 0
    path, _ = staff.subscribe()
    assert staff.get(path).status_code == 200, "who knows the address is let in"
