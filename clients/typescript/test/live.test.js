// The client against a running service: all skills, bindings and cards. OPEN_URL, GUARDED_URL, TOKEN and VIN name it.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as client from "dealer-agent-client";

const { DealerAgent } = client;
const { OPEN_URL, GUARDED_URL, TOKEN, VIN } = process.env;
const skip = OPEN_URL === undefined && "no running service: OPEN_URL is not set";

const lead = () => ({
  customer: { first_name: "Robin", last_name: "Example", email: `${crypto.randomUUID()}@example.com` },
  consent: {
    granted_at: new Date(Date.now() - 60_000),
    allowed_channels: ["email"],
    consent_text: "Share my details with this dealer.",
    scope: ["lead_submission"],
  },
  source_agent: "TypeScript Agent",
});

const AGENTS = [
  ["", "JSONRPC"],
  ["", "HTTP+JSON"],
  ["/cards/0.1.0.json", "JSONRPC"],
  ["/cards/0.1.0.json", "HTTP+JSON"],
  ["/aap/1.0", "HTTP+JSON"],
  ["/aap/1.1", "JSONRPC"],
  ["/aap/1.3", "JSONRPC"],
];

for (const [place, binding] of AGENTS) {
  test(`all skills of ${place || "the root"} answer over ${binding}`, { skip }, async () => {
    const agent = await DealerAgent.discover(OPEN_URL + place, { binding, verifySignature: true });
    assert.equal(agent.card.binding, binding);
    assert.equal(agent.card.skills.size, 5);

    const { name, rooftops } = await agent.information();
    assert.equal(name, "Acceptance Motors");
    const facets = await agent.facets({ condition: ["used"] });
    assert.deepEqual(facets.makes, [{ value: "Honda", count: 1 }]);
    const page = await agent.search({ price_max: 60_000 }, { sort: "-price", limit: 1 });
    assert.deepEqual([page.total > 1, page.vehicles.length, page.skipped], [true, 1, []]);
    const seen = [];
    for await (const { vin } of agent.searchAll({}, { pageSize: 2 })) seen.push(vin);
    assert.equal(new Set(seen).size, 3);
    const car = await agent.vehicle({ vin: VIN });
    assert.deepEqual([car.price, car.rooftop], [28_040, rooftops[0].name]);

    const sent = { ...lead(), vehicle_of_interest: { vin: VIN }, message: "Is it still there?" };
    const first = await agent.submitLead(sent);
    assert.equal(first.status, "received");
    const again = await agent.submitLead({ ...sent, idempotency_key: first.idempotency_key });
    assert.deepEqual(again, first);
    const other = agent.submitLead({ ...sent, idempotency_key: first.idempotency_key, message: "Another" });
    await assert.rejects(other, client.IdempotencyConflict);
  });

  test(`errors of ${place || "the root"} over ${binding} are classes with everything that is wrong`, { skip }, async () => {
    const agent = await DealerAgent.discover(OPEN_URL + place, { binding });
    await assert.rejects(agent.vehicle({ vin: "1HGCM82633A004352" }), client.VehicleNotFound);
    const wrong = { filters: { year_min: "new", make: 7 }, colour: "red" };
    const error = await agent.ask("inventory.search", wrong).catch((caught) => caught);
    assert(error instanceof client.SchemaValidationFailed, error);
    assert(error.problems.length >= 3);
    assert(error.problems.some(({ pointer, message }) => pointer === "/filters/year_min" && message !== ""));
    assert.match(error.errorId, /./);
    assert.equal(error.mayHaveArrived, false);
    const consent = { ...lead().consent, allowed_channels: ["email"], granted_at: new Date(Date.now() + 86_400_000) };
    const refused = await agent.submitLead({ ...lead(), consent }).catch((caught) => caught);
    assert(refused instanceof client.InvalidConsent, refused);
    assert.match(refused.idempotencyKey, /./);
  });
}

test("a test drive gets an appointment", { skip }, async () => {
  const agent = await DealerAgent.discover(OPEN_URL);
  const wanted = { appointment_type: "test_drive", appointment_at: new Date(Date.now() + 7 * 86_400_000) };
  const sent = { ...lead(), vehicle_of_interest: { vin: VIN }, appointment: wanted };
  const { appointment } = await agent.submitLead(sent);
  assert(["confirmed", "proposed", "requested"].includes(appointment.status), appointment.status);
  assert.match(appointment.appointment_id, /./);
});

test("a service that needs a token gets it, and refuses others", { skip }, async () => {
  const agent = await DealerAgent.discover(GUARDED_URL, { token: TOKEN });
  assert.equal((await agent.search()).total, 3);
  for (const token of [undefined, "wrong"]) {
    await assert.rejects((await DealerAgent.discover(GUARDED_URL, { token })).search(), client.AuthRequired);
  }
});

test("a card that was changed on its way is refused", { skip }, async () => {
  const changed = (change) => async (url, init) => {
    const response = await fetch(url, init);
    return url.pathname.endsWith("agent-card.json") ? Response.json(change(await response.json())) : response;
  };
  const discovered = (change) => DealerAgent.discover(OPEN_URL, { verifySignature: true, fetch: changed(change) });
  assert.equal((await discovered((card) => card)).card.name, "Acceptance Motors");
  await assert.rejects(discovered((card) => ({ ...card, name: "Evil Motors" })), client.CardNotVerified);
  await assert.rejects(discovered(({ signatures, ...card }) => card), client.CardNotVerified);
});
