"""Defects for the checks of appointments: dealers that accept malformed ones, refuse valid ones, or answer wrongly."""

import json

from dealer_agent.self_test.defects.leads import (
    accepts,
    has_windows,
    is_coming,
    is_past,
    pops,
    refuses,
    replies,
    replies_visit,
    visit,
)

accepts(
    "appointments.type-missing",
    lambda payload: visit(payload).setdefault("appointment_type", "sales"),
    lambda payload: "appointment" in payload,
)
accepts("appointments.duration", lambda payload: visit(payload).pop("duration_minutes", None))
accepts("appointments.unknown-member", lambda payload: visit(payload).pop("shoe_size", None))
accepts("appointments.notes-length", lambda payload: visit(payload).pop("notes", None))
accepts(
    "appointments.no-windows",
    lambda payload: visit(payload).pop("requested_windows"),
    lambda payload: visit(payload).get("requested_windows") == [],
)
accepts(
    "appointments.zone-unknown",
    lambda payload: visit(payload).pop("timezone"),
    lambda payload: "Mars" in visit(payload).get("timezone", ""),
)
accepts(
    "appointments.type-unknown",
    lambda payload: visit(payload).update(appointment_type="sales"),
    lambda payload: visit(payload).get("appointment_type") == "picnic",
)
accepts(
    "appointments.at-malformed",
    lambda payload: visit(payload).pop("appointment_at"),
    lambda payload: visit(payload).get("appointment_at") == "tomorrow",
)
accepts(
    "appointments.at-without-offset",
    lambda payload: visit(payload).pop("appointment_at"),
    lambda payload: str(visit(payload).get("appointment_at")).startswith("2099"),
)
accepts(
    "appointments.both-forms",
    lambda payload: visit(payload).pop("requested_windows"),
    lambda payload: {"appointment_at", "requested_windows"} <= set(visit(payload)) and "notes" not in visit(payload),
)
accepts(
    "appointments.window-backwards",
    lambda payload: visit(payload)["requested_windows"][0].pop("end", None),
    lambda payload: has_windows(payload) and "timezone" not in visit(payload) and "Z" in json.dumps(visit(payload)),
)
accepts(
    "appointments.window-without-zone",
    lambda payload: visit(payload).update(timezone="America/Chicago"),
    lambda payload: "2099-01-05T12" in json.dumps(visit(payload)),
)
accepts(
    "appointments.windows-refused",
    lambda payload: [visit(payload).pop(name, None) for name in ("requested_windows", "timezone")],
)
refuses("appointments.at", is_coming)
refuses("appointments.past-accepted", is_past)
refuses("appointments.at-0.1.0", is_coming)
refuses("appointments.windows", has_windows)
refuses("appointments.windows-1.0.0", has_windows)
replies(
    "appointments.not-asked-for",
    lambda data: data.update(
        appointment={"appointment_id": "1", "status": "confirmed", "confirmed_at": "2126-03-02T15:00:00-06:00"}
    ),
    lambda payload: "appointment" not in payload,
)
replies("appointments.with-trade-in", pops("appointment"), lambda payload: "trade_in" in payload)
replies("appointments.time-answered", pops("appointment"), is_coming)
replies(
    "appointments.time-answered",
    pops("appointment"),
    has_windows,
    name="appointments.time-answered.windows",
    revision="0.1.0",
)
replies("appointments.at-answered", pops("appointment"), is_coming)
replies("appointments.id", lambda data: data["appointment"].pop("appointment_id"), is_coming)
replies_visit("appointments.status", is_coming, status="maybe")
replies_visit("appointments.confirmed-at", is_coming, status="confirmed", confirmed_at="2099-01-05T16:00:00Z")
replies_visit("appointments.proposed-times", is_coming, status="proposed")
replies_visit("appointments.proposals", is_past, status="proposed")
replies_visit("appointments.times-future", is_coming, status="proposed", proposed_times=["2020-01-06T16:00:00Z"])
replies_visit("appointments.past", is_past, status="confirmed", confirmed_at="2020-01-05T10:00:00Z")
replies_visit("appointments.window-form", has_windows, status="proposed", proposed_times=["2099-01-05T10:00:00Z"])
replies_visit(
    "appointments.window-confirmed",
    has_windows,
    status="confirmed",
    confirmed_window={"start": "2099-01-05T10:00:00Z", "end": "2099-01-05T11:00:00Z"},
)
accepts(
    "appointments.window-confirmed",
    lambda payload: visit(payload).update(timezone="Etc/UTC"),
    lambda payload: has_windows(payload) and visit(payload).get("timezone") == "Etc/GMT+3",
    name="appointments.window-confirmed.in-utc",
)
accepts(
    "appointments.window-confirmed",
    lambda payload: visit(payload).update(timezone="America/Chicago"),
    lambda payload: has_windows(payload) and visit(payload).get("timezone") == "Etc/GMT+3",
    name="appointments.window-confirmed.in-zone-of-dealer",
)
replies_visit("appointments.no-time", lambda payload: set(visit(payload)) == {"appointment_type"}, status="confirmed")
