// An invented dealer for the tests: an HTTP server with a card, which answers each request as a test says.

import { createServer } from "node:http";

export const LEAD = {
  customer: { first_name: "Robin", last_name: "Example", email: "robin@example.com" },
  consent: {
    granted_at: new Date("2026-11-20T15:00:00Z"),
    allowed_channels: ["email"],
    consent_text: "Share my details with this dealer.",
    scope: ["lead_submission"],
  },
  source_agent: "Test Agent",
};

export const VEHICLE = {
  vehicle_id: "veh_1",
  status: "available",
  rooftop: "Test Motors",
  updated_at: "2026-11-20T15:00:00Z",
  price: 20000,
};

const STEMS = {
  "dealer.information": "dealer-information",
  "inventory.facets": "inventory-facets",
  "inventory.search": "inventory-search",
  "inventory.vehicle": "vehicle-detail",
  "lead.submit": "lead-submit",
};

/** An agent card with other members in place of those that are there. */
export function card(url, changes = {}) {
  return {
    name: "Test Motors",
    version: "1",
    supportedInterfaces: [{ url: `${url}/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
    capabilities: { extensions: [{ uri: "https://proto.example/extensions/a2a-automotive-retail/v1.0" }] },
    defaultInputModes: [],
    defaultOutputModes: [],
    skills: Object.entries(STEMS).map(([id, stem]) => ({
      id,
      name: id,
      inputModes: [`application/vnd.proto.${stem}-request+json`],
    })),
    ...changes,
  };
}

/** The members of the payload of a request. */
export const membersOf = ({ body }) => body.params.message.parts[0].data;

/** A response with this data, over JSON-RPC. */
export function reply(request, data, message) {
  const type = membersOf(request).type.replace(".request", ".response");
  const part = { data: { type, data, message }, mediaType: "application/json" };
  const answer = { message: { messageId: "reply-1", role: "ROLE_AGENT", parts: [part] } };
  return { body: { jsonrpc: "2.0", id: request.body.id, result: answer } };
}

/** A response with an error of the protocol, over JSON-RPC. */
export function refusal(request, code, retryable, details = {}) {
  const payload = { type: "proto.error", error_id: "err_1", code, message: "No", retryable, details };
  const error = { code: -32000, message: `${code}: No`, data: [{ reason: code, metadata: {} }, payload] };
  return { body: { jsonrpc: "2.0", id: request.body.id, error } };
}

/**
 * Starts a dealer for a test: its URL, the requests to skills that arrived, and those for the card. `respond` gets a request, and returns
 * `{ status, headers, body }`, or "hang up", or "say nothing". `get` answers other requests by path.
 */
export async function dealer(test, { respond, changes = {}, get = {} }) {
  const requests = [];
  const cardRequests = [];
  const server = createServer(async (message, response) => {
    const chunks = [];
    for await (const chunk of message) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const request = { path: message.url, headers: message.headers, body: text ? JSON.parse(text) : undefined };
    let answer = { status: 404, body: "" };
    if (message.method === "POST") {
      requests.push(request);
      answer = await respond(request, requests.length);
    } else if (message.url in get) {
      answer = await get[message.url](request);
    } else if (message.url === "/.well-known/agent-card.json") {
      cardRequests.push(request);
      answer = { body: card(url, typeof changes === "function" ? changes(url) : changes) };
    }
    if (answer === "hang up") return message.socket.destroy();
    if (answer === "say nothing") return;
    const body = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body);
    response.writeHead(answer.status ?? 200, { "Content-Length": answer.length ?? Buffer.byteLength(body), ...answer.headers });
    response.end(body);
    if (answer.length) message.socket.destroySoon();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url, requests, cardRequests };
}
