// The official JavaScript client, `@a2a-js/sdk`, through the service's own card: all five skills over both bindings,
// success and error (docs/protocol.md#skills, docs/protocol.md#errors). The client drops error details, so `fetch` keeps the raw answers.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { Role } from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const { OPEN_URL, GUARDED_URL, TOKEN, VIN } = process.env;

const THING = {
  "dealer.information": "dealer-information",
  "inventory.facets": "inventory-facets",
  "inventory.search": "inventory-search",
  "inventory.vehicle": "vehicle-detail",
  "lead.submit": "lead-submit",
};

const mediaType = (skill, way) => `application/vnd.proto.${THING[skill]}-${way}+json`;

const BINDINGS = { "HTTP+JSON": RestTransportFactory, JSONRPC: JsonRpcTransportFactory };

async function ask(binding, skill, members, { url = OPEN_URL, token } = {}) {
  const raw = [];
  const fetchImpl = async (address, init) => {
    const headers = { ...init?.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(address, { ...init, headers });
    raw.push({
      sent: JSON.parse(init.body),
      status: response.status,
      headers: response.headers,
      body: JSON.parse(await response.clone().text()),
    });
    return response;
  };
  const factory = new ClientFactory({
    transports: [new BINDINGS[binding]({ fetchImpl })],
    clientConfig: { acceptedOutputModes: [mediaType(skill, "response")] },
    cardResolver: new DefaultAgentCardResolver(),
  });
  const client = await factory.createFromUrl(url);
  const part = {
    content: { $case: "data", value: { type: `${skill}.request`, ...members } },
    mediaType: mediaType(skill, "request"),
    filename: "",
    metadata: undefined,
  };
  const message = {
    messageId: randomUUID(),
    role: Role.ROLE_USER,
    parts: [part],
    contextId: "",
    taskId: "",
    extensions: [],
    referenceTaskIds: [],
    metadata: undefined,
  };
  const request = { tenant: "", message, configuration: undefined, metadata: undefined };
  try {
    return { message: await client.sendMessage(request), raw: raw[0] };
  } catch (error) {
    return { error, raw: raw[0] };
  }
}

function dataOf({ message, error }, skill) {
  assert.ifError(error);
  assert.equal(message.role, Role.ROLE_AGENT);
  assert.equal(message.parts.length, 1);
  const [part] = message.parts;
  assert.equal(part.mediaType, mediaType(skill, "response"));
  assert.equal(part.content.$case, "data");
  assert.equal(part.content.value.type, `${skill}.response`);
  return part.content.value.data;
}

function lead(members = {}) {
  return {
    customer: { first_name: "Kim", last_name: "Example", phone: "+12025550147", preferred_contact: "sms" },
    consent: {
      granted_at: new Date(Date.now() - 60_000).toISOString(),
      allowed_channels: ["sms"],
      consent_text: "Share my details with this dealer.",
      scope: ["lead_submission"],
    },
    vehicle_of_interest: { vin: VIN },
    source_agent: "JavaScript Agent",
    idempotency_key: randomUUID(),
    ...members,
  };
}

for (const binding of Object.keys(BINDINGS)) {
  test(`${binding}: the client learns who the dealer is`, async () => {
    const data = dataOf(await ask(binding, "dealer.information", {}), "dealer.information");
    assert.equal(data.name, "Acceptance Motors");
    assert.equal(data.rooftops.length, 2);
  });

  test(`${binding}: the client counts the stock`, async () => {
    const data = dataOf(await ask(binding, "inventory.facets", { filters: { make: ["honda"] } }), "inventory.facets");
    assert.deepEqual(data.makes, [{ value: "Honda", count: 1 }]);
  });

  test(`${binding}: the client searches`, async () => {
    const members = {
      filters: { year_min: 2020, condition: ["used"] },
      pagination: { skip: 0, limit: 5 },
      sort: { field: "price", order: "asc" },
      privacy: { anonymous: true },
    };
    const data = dataOf(await ask(binding, "inventory.search", members), "inventory.search");
    assert.equal(data.total, 1);
    assert.equal(data.vehicles[0].vin, VIN);
    assert.equal(data.vehicles[0].price, 28040);
  });

  test(`${binding}: the client sees one vehicle`, async () => {
    const data = dataOf(await ask(binding, "inventory.vehicle", { vin: VIN }), "inventory.vehicle");
    assert.equal(data.model, "Accord Hybrid");
  });

  test(`${binding}: the client submits a lead`, async () => {
    const data = dataOf(await ask(binding, "lead.submit", lead()), "lead.submit");
    assert.match(data.status, /^(received|duplicate)$/);
    assert.ok(data.lead_id);
  });

  const refused = [
    ["dealer.information", { colour: "red" }, 422, -32602, "SCHEMA_VALIDATION_FAILED"],
    ["inventory.facets", { filters: { year_min: 1 } }, 422, -32602, "SCHEMA_VALIDATION_FAILED"],
    ["inventory.search", { pagination: { limit: 0 } }, 422, -32602, "SCHEMA_VALIDATION_FAILED"],
    ["inventory.vehicle", { vin: "1HGCY2F57RA999999" }, 404, -32000, "VEHICLE_NOT_FOUND"],
    ["lead.submit", lead({ consent: undefined }), 403, -32000, "CONTACT_CONSENT_REQUIRED"],
  ];
  for (const [skill, members, status, number, code] of refused) {
    test(`${binding}: the client raises what ${skill} refuses`, async () => {
      const { error, raw } = await ask(binding, skill, JSON.parse(JSON.stringify(members)));
      assert.ok(error instanceof Error);
      const rest = binding === "HTTP+JSON";
      assert.equal(raw.status, rest ? status : 200);
      assert.equal(raw.body.error.code, rest ? status : number);
      const [info, payload] = rest ? raw.body.error.details : raw.body.error.data;
      assert.equal(info.reason, code);
      assert.equal(payload.code, code);
      assert.ok(error.message.includes(payload.message), error.message);
    });
  }

  test(`${binding}: the client gets in with a token, and not without`, async () => {
    const members = { vin: VIN };
    const let_in = await ask(binding, "inventory.vehicle", members, { url: GUARDED_URL, token: TOKEN });
    assert.equal(dataOf(let_in, "inventory.vehicle").vin, VIN);
    const { error, raw } = await ask(binding, "inventory.vehicle", members, { url: GUARDED_URL });
    assert.ok(error instanceof Error);
    assert.equal(raw.status, 401);
    assert.match(raw.headers.get("www-authenticate"), /^Bearer/);
  });
}
