// Quotes, holds, changes and what became of a lead, against a running service that makes offers. OFFERS_URL,
// OFFERS_TOKENS (an agent holds a vehicle once a day) and VIN name it.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as client from "dealer-agent-client";

import { dealer, membersOf, refusal, reply } from "./dealer.js";

const { DealerAgent } = client;
const { OFFERS_URL, OFFERS_TOKENS = "", VIN } = process.env;
const skip = OFFERS_URL === undefined && "no running service: OFFERS_URL is not set";
const tokens = OFFERS_TOKENS.split(" ");

for (const [number, binding] of ["JSONRPC", "HTTP+JSON"].entries()) {
  test(`a quote is verified, and its vehicle is held and released over ${binding}`, { skip }, async () => {
    const agent = await DealerAgent.discover(OFFERS_URL, { token: tokens[number], binding });
    assert.equal(agent.card.makesOffers, true);
    const quote = await agent.quote({ vin: VIN, zip: "22301" }, { buyer_ref: "buyer-7" });
    assert.equal(quote.price, 28_040);
    assert.equal(quote.buyer_ref, "buyer-7");
    const cents = quote.lines.reduce((sum, { amount }) => sum + Math.round(amount * 100), 0);
    assert.equal(cents, Math.round(quote.total * 100));
    // Also as it was stored.
    await agent.verifyQuote(JSON.parse(JSON.stringify(quote)));

    const anonymous = await DealerAgent.discover(OFFERS_URL, { binding });
    const refused = await anonymous.hold(quote.quote_id).catch((caught) => caught);
    assert(refused instanceof client.CallerNotKnown, refused);
    assert.match(refused.idempotencyKey, /./);

    const idempotency_key = crypto.randomUUID();
    const hold = await agent.hold(quote.quote_id, { idempotency_key });
    assert.deepEqual([hold.status, hold.price], ["active", quote.price]);
    assert.deepEqual(await agent.hold(quote.quote_id, { idempotency_key }), hold);
    assert.deepEqual(await agent.holdStatus(hold.hold_id), hold);
    assert.equal((await agent.release(hold.hold_id)).status, "released");
    await assert.rejects(anonymous.holdStatus(hold.hold_id), client.CallerNotKnown);
  });
}

test("a quote with any other member is not verified", { skip }, async (context) => {
  const agent = await DealerAgent.discover(OFFERS_URL);
  const quote = await agent.quote({ vin: VIN });
  const [header, payload, value] = quote.signature.split(".");
  const wrong = [
    { ...quote, price: 1 },
    { ...quote, total: quote.total + 0.01 },
    { ...quote, valid_until: "2036-01-01T00:00:00Z" },
    { ...quote, more: true },
    { ...quote, lines: quote.lines.slice(1) },
    { ...quote, signature: undefined },
    { ...quote, signature: `${header}.${payload}` },
    { ...quote, signature: `${header}.${payload}.${value}.` },
    { ...quote, signature: `${header}.${payload}.${value.slice(0, -1)}${value.endsWith("B") ? "C" : "B"}` },
    { ...quote, signature: `${header}.${payload}.${value[0] === "A" ? "B" : "A"}${value.slice(1)}` },
    { ...quote, signature: `${header.slice(0, -2)}.${payload}.${value}` },
  ];
  for (const each of wrong) await assert.rejects(agent.verifyQuote(each), client.QuoteNotVerified);
  // These keys are not those of another address.
  const { url } = await dealer(context, { respond: (request) => reply(request, {}) });
  await assert.rejects((await DealerAgent.discover(url)).verifyQuote(quote), client.QuoteNotVerified);
});

test("the stock is read page by page, and then has no more changes", { skip }, async () => {
  const agent = await DealerAgent.discover(OFFERS_URL);
  const seen = [];
  let page = await agent.changes({ limit: 2 });
  seen.push(...page.changes);
  while (page.more) {
    page = await agent.changes({ cursor: page.cursor, limit: 2 });
    seen.push(...page.changes);
  }
  assert.equal(new Set(seen.map(({ vehicle_id }) => vehicle_id)).size, (await agent.search()).total);
  assert(seen.every(({ change, vehicle }) => change === "added" && vehicle.rooftop));
  assert.deepEqual((await agent.changes({ cursor: page.cursor })).changes, []);
});

test("the sender of a lead learns what became of it, moves its visit and cancels it", { skip }, async () => {
  const agent = await DealerAgent.discover(OFFERS_URL);
  const at = (days) => new Date(Date.now() + days * 86_400_000);
  const sent = await agent.submitLead({
    customer: { first_name: "Robin", last_name: "Example", email: `${crypto.randomUUID()}@example.com` },
    consent: {
      granted_at: new Date(Date.now() - 60_000),
      allowed_channels: ["email"],
      consent_text: "Share my details with this dealer.",
      scope: ["lead_submission"],
    },
    source_agent: "TypeScript Agent",
    appointment: { appointment_type: "test_drive", appointment_at: at(7) },
  });
  const secret = sent.lead_secret;
  const state = await agent.leadStatus(sent.lead_id, { secret });
  assert.equal(state.lead_id, sent.lead_id);
  assert.equal(state.visit.appointment_type, "test_drive");
  await assert.rejects(agent.leadStatus(sent.lead_id, { secret: "wrong" }), client.LeadNotFound);
  const moved = await agent.moveVisit(sent.lead_id, at(9), { secret }).catch((caught) => caught);
  assert(moved.visit || moved instanceof client.AppointmentTimeUnavailable, moved);
  const { visit } = await agent.cancelVisit(sent.lead_id, { secret, reason: "No time." });
  assert.equal(visit.status, "cancelled");
});

test("a lead names a hold only to a dealer that makes offers", async (context) => {
  const { url, requests } = await dealer(context, { respond: (request) => reply(request, {}) });
  const agent = await DealerAgent.discover(url);
  assert.equal(agent.card.makesOffers, false);
  const lead = { customer: {}, consent: {}, source_agent: "Test", offer: { hold_id: "1" } };
  await assert.rejects(agent.submitLead(lead), client.InvalidRequest);
  assert.equal(requests.length, 0);
});

const OFFERS = { capabilities: { extensions: [{ uri: "https://proto.example/extensions/offers/v1" }] } };
const SKILLS = { skills: [{ id: "offer.hold", inputModes: ["application/vnd.proto.offer-hold-request+json"] }] };
const HOLD = {
  hold_id: "1", quote_id: "2", vehicle_id: "3", price: 1, currency: "USD", created_at: "", expires_at: "", status: "active", terms: "",
};

test("a hold is sent again with the same key, and names the extension", async (context) => {
  const respond = (request, number) => (number === 1 ? "hang up" : reply(request, HOLD));
  const { url, requests } = await dealer(context, { respond, changes: { ...OFFERS, ...SKILLS } });
  const agent = await DealerAgent.discover(url, { retries: { firstPauseMs: 1 } });
  assert.deepEqual([agent.card.makesOffers, agent.card.extension], [true, undefined]);
  assert.deepEqual(await agent.hold("2"), HOLD);
  const keys = requests.map((request) => membersOf(request).idempotency_key);
  assert.equal(keys.length, 2);
  assert.equal(new Set(keys).size, 1);
  assert.match(requests[0].headers["a2a-extensions"], /offers\/v1$/);
});

test("a hold that is refused is not sent again, and the error has its key", async (context) => {
  const respond = (request) => refusal(request, "HOLD_CONFLICT", false, { until: "2026-11-20T15:00:00Z" });
  const { url, requests } = await dealer(context, { respond, changes: { ...OFFERS, ...SKILLS } });
  const error = await (await DealerAgent.discover(url)).hold("2", { idempotency_key: "k" }).catch((caught) => caught);
  assert(error instanceof client.HoldConflict, error);
  assert.deepEqual([error.idempotencyKey, error.details.until, requests.length], ["k", "2026-11-20T15:00:00Z", 1]);
});
