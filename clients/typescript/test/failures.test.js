// What the client does when a dealer's agent fails, lies or is newer than the client.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as client from "dealer-agent-client";

import { dealer, LEAD, membersOf, refusal, reply, VEHICLE } from "./dealer.js";

const { DealerAgent } = client;
const AT_ONCE = { retries: { max: 2, firstPauseMs: 0 } };
const PAGE = { total: 1, skip: 0, limit: 20, vehicles: [VEHICLE] };
const RECEIPT = { lead_id: "lead-1", status: "received" };

/** What arrives at a dealer that fails so many times, and the error of the caller. */
async function attempts(context, failure, { times = 1, isLead = false, idempotency = false, retries } = {}) {
  const { url, requests } = await dealer(context, {
    respond: (request, number) => (number > times ? reply(request, isLead ? RECEIPT : PAGE) : failure(request)),
    changes: {
      capabilities: {
        extensions: [
          { uri: "https://proto.example/extensions/a2a-automotive-retail/v1.0", params: { idempotency } },
        ],
      },
    },
  });
  const agent = await DealerAgent.discover(url, { ...AT_ONCE, ...(retries ? { retries } : {}) });
  try {
    await (isLead ? agent.submitLead(LEAD) : agent.search());
    return { requests };
  } catch (error) {
    assert(error instanceof client.DealerAgentError, error);
    return { requests, error };
  }
}

const MENDED = {
  "an error of a known code that is temporary": (request) => refusal(request, "VEHICLE_UNAVAILABLE", true),
  "429 with a payload": (request) => ({
    ...refusal(request, "RATE_LIMITED", true, { retry_after_seconds: 0 }),
    status: 429,
  }),
  "a bare 429": () => ({ status: 429, body: "", headers: { "Retry-After": "0" } }),
  "503 with Retry-After": () => ({ status: 503, body: "", headers: { "Retry-After": "0" } }),
};
const MENDED_FOR_READING = {
  "no reply": () => "hang up",
  "half a reply": () => ({ body: "{", length: 1000 }),
  "a bare 502": () => ({ status: 502, body: "" }),
  "a bare 503": () => ({ status: 503, body: "<html>" }),
  "a bare 504": () => ({ status: 504, body: "" }),
  "an internal error": (request) => refusal(request, "INTERNAL_ERROR", true),
  "an unknown error that is temporary": (request) => refusal(request, "OUT_OF_SEASON", true),
};
const NEVER = {
  "a refusal": (request) => refusal(request, "VEHICLE_NOT_FOUND", false),
  "a bare 500": () => ({ status: 500, body: "<html>" }),
  "a longer wait than the client accepts": () => ({ status: 429, body: "", headers: { "Retry-After": "3600" } }),
  "a redirect": () => ({ status: 307, body: "", headers: { Location: "https://elsewhere.example/" } }),
};

for (const [name, failure] of Object.entries({ ...MENDED, ...MENDED_FOR_READING })) {
  test(`a search is sent again after ${name}`, async (context) => {
    const { requests, error } = await attempts(context, failure, { times: 2 });
    assert.equal(error, undefined);
    assert.equal(requests.length, 3);
  });
}

for (const [name, failure] of Object.entries(MENDED)) {
  test(`a lead is sent again with the same key after ${name}`, async (context) => {
    const { requests, error } = await attempts(context, failure, { times: 2, isLead: true });
    assert.equal(error, undefined);
    assert.equal(requests.length, 3);
    assert.equal(new Set(requests.map((request) => membersOf(request).idempotency_key)).size, 1);
    assert.equal(new Set(requests.map((request) => request.body.id)).size, 3);
  });
}

for (const [name, failure] of Object.entries(MENDED_FOR_READING)) {
  test(`a lead is not sent again after ${name}, because it may have arrived`, async (context) => {
    const { requests, error } = await attempts(context, failure, { isLead: true });
    assert.equal(requests.length, 1);
    assert.equal(error.mayHaveArrived, true);
    assert.equal(error.idempotencyKey, membersOf(requests[0]).idempotency_key);
  });

  test(`a lead is sent again after ${name} to a dealer that declares idempotency`, async (context) => {
    const { requests, error } = await attempts(context, failure, { isLead: true, idempotency: true });
    assert.equal(error, undefined);
    assert.equal(new Set(requests.map((request) => membersOf(request).idempotency_key)).size, 1);
    assert.equal(requests.length, 2);
  });
}

for (const [name, failure] of Object.entries(NEVER)) {
  for (const isLead of [false, true]) {
    test(`a ${isLead ? "lead" : "search"} is not sent again after ${name}`, async (context) => {
      const { requests, error } = await attempts(context, failure, { isLead, idempotency: true });
      assert.equal(requests.length, 1);
      assert.equal(error.idempotencyKey === undefined, !isLead);
    });
  }
}

test("the number of retries is bounded", async (context) => {
  const failure = () => ({ status: 503, body: "" });
  assert.equal((await attempts(context, failure, { times: 99 })).requests.length, 3);
  assert.equal((await attempts(context, failure, { times: 99, retries: { max: 0 } })).requests.length, 1);
});

test("a lead that may have arrived in an earlier attempt may have arrived", async (context) => {
  const failures = [() => "hang up", ...Array(2).fill(MENDED["a bare 429"])];
  const next = (request) => failures.shift()(request);
  const { requests, error } = await attempts(context, next, { times: 3, isLead: true, idempotency: true });
  assert.equal(requests.length, 3);
  assert(error instanceof client.RateLimited);
  assert.equal(error.mayHaveArrived, true);
});

test("without a server, nothing of a lead arrived", async (context) => {
  // Nothing listens at this port, and only the administrator could change that.
  const nowhere = [{ url: "https://127.0.0.1:4/rpc", protocolBinding: "JSONRPC" }];
  const { url } = await dealer(context, { respond: () => "hang up", changes: { supportedInterfaces: nowhere } });
  const seen = [];
  const agent = await DealerAgent.discover(url, { ...AT_ONCE, onExchange: ({ status }) => seen.push(status) });
  const error = await agent.submitLead({ ...LEAD, idempotency_key: "mine" }).catch((caught) => caught);
  assert(error instanceof client.Unreachable);
  assert.equal(error.mayHaveArrived, false);
  assert.equal(error.idempotencyKey, "mine");
  assert.deepEqual(seen, [200, 0, 0, 0]);
});

test("a failure before anything was sent is known by what fetch says", async () => {
  const failed = (cause) => () => Promise.reject(new TypeError("fetch failed", { cause }));
  const because = (members) => Object.assign(new Error("no"), members);
  const refused = because({ code: "ECONNREFUSED", syscall: "connect" });
  const broken = because({ code: "ECONNRESET", syscall: "read" });
  const cases = [
    [because({ code: "ENOTFOUND", syscall: "getaddrinfo" }), false],
    [because({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }), false],
    [because({ code: "UND_ERR_CONNECT_TIMEOUT" }), false],
    [new AggregateError([refused, refused]), false],
    [new AggregateError([refused, broken]), true],
    [broken, true],
    [because({ code: "UND_ERR_SOCKET" }), true],
    [undefined, true],
  ];
  for (const [cause, mayHaveArrived] of cases) {
    const options = { fetch: failed(cause), retries: { max: 0 } };
    const error = await DealerAgent.discover("https://dealer.example", options).catch((caught) => caught);
    assert(error instanceof client.Unreachable);
    assert.equal(error.mayHaveArrived, mayHaveArrived, String(cause));
  }
});

test("a timeout of a call ends it, and its lead may have arrived", async (context) => {
  const { url } = await dealer(context, { respond: () => "say nothing" });
  const agent = await DealerAgent.discover(url);
  const error = await agent.submitLead(LEAD, { timeoutMs: 50 }).catch((caught) => caught);
  assert(error instanceof client.Unreachable);
  assert.match(error.message, /no response in time/);
  assert.equal(error.mayHaveArrived, true);
});

test("a signal ends a call, also between two retries", async (context) => {
  const waiting = new AbortController();
  const respond = () => {
    waiting.abort(new Error("enough"));
    return "say nothing";
  };
  const { url } = await dealer(context, { respond });
  const agent = await DealerAgent.discover(url, { retries: { firstPauseMs: 3_600_000, longestPauseMs: 3_600_000 } });
  const error = await agent.submitLead(LEAD, { signal: waiting.signal }).catch((caught) => caught);
  assert(error instanceof client.Aborted);
  assert.equal(error.name, "AbortError");
  assert.equal(error.cause.message, "enough");
  assert.equal(error.mayHaveArrived, true);

  const before = await agent.submitLead(LEAD, { signal: AbortSignal.abort() }).catch((caught) => caught);
  assert.equal(before.mayHaveArrived, false);

  const pausing = new AbortController();
  const failing = await dealer(context, { respond: () => ({ status: 503, body: "" }) });
  const patient = await DealerAgent.discover(failing.url, {
    retries: { firstPauseMs: 3_600_000, longestPauseMs: 3_600_000 },
    onExchange: ({ method }) => method === "POST" && setImmediate(() => pausing.abort()),
  });
  const between = await patient.search({}, { signal: pausing.signal }).catch((caught) => caught);
  assert(between instanceof client.Aborted);
});

test("unknown members and words of a newer dealer are kept", async (context) => {
  const newer = { ...VEHICLE, status: "reserved", wheels: { count: 4 }, vin: null };
  const { url } = await dealer(context, { respond: (request) => reply(request, { ...PAGE, vehicles: [newer], more: 1 }) });
  const page = await (await DealerAgent.discover(url)).search();
  const { vin: _, ...kept } = newer;
  assert.deepEqual(page, { ...PAGE, vehicles: [kept], more: 1, skipped: [] });
});

test("a listing with wrong types is skipped and reported", async (context) => {
  const bad = { ...VEHICLE, vehicle_id: "veh_2", price: "20,000" };
  const good = { ...VEHICLE, vehicle_id: "veh_3" };
  const rows = [VEHICLE, bad, 7, good];
  const respond = (request) => {
    const { skip = 0, limit = 4 } = membersOf(request).pagination ?? {};
    return reply(request, { total: 4, skip, limit, vehicles: rows.slice(skip, skip + limit) });
  };
  const { url } = await dealer(context, { respond });
  const agent = await DealerAgent.discover(url);
  const page = await agent.search();
  assert.deepEqual(page.vehicles, [VEHICLE, good]);
  assert.deepEqual(page.skipped, [
    { reason: "/price must be integer", listing: bad },
    { reason: "must be object", listing: 7 },
  ]);

  const all = agent.searchAll({}, { pageSize: 2 });
  assert.deepEqual(await collected(all), [VEHICLE, good]);
  assert.equal(all.skipped.length, 2);
  const alone = await dealer(context, { respond: (request) => reply(request, bad) });
  await assert.rejects((await DealerAgent.discover(alone.url)).vehicle({ vin: "1" }), client.MalformedResponse);
});

async function collected(stream) {
  const found = [];
  for await (const each of stream) found.push(each);
  return found;
}

/** A dealer with so many vehicles, whose pages begin where `moved` says in each request. */
function stock(count, moved = (skip) => skip, limitOfDealer = 1_000) {
  const all = Array.from({ length: count }, (_, number) => ({ ...VEHICLE, vehicle_id: `veh_${number}` }));
  return (request, number) => {
    const { skip, limit } = membersOf(request).pagination;
    const from = moved(skip, number);
    const vehicles = all.slice(from, from + Math.min(limit, limitOfDealer));
    return reply(request, { total: count, skip, limit, vehicles });
  };
}

test("searchAll returns every vehicle once, whatever the size of a page is", async (context) => {
  for (const limitOfDealer of [1, 7, 1_000]) {
    const { url } = await dealer(context, { respond: stock(20, undefined, limitOfDealer) });
    const agent = await DealerAgent.discover(url);
    const found = await collected(agent.searchAll({}, { pageSize: 9 }));
    assert.deepEqual(
      found.map(({ vehicle_id }) => vehicle_id),
      Array.from({ length: 20 }, (_, number) => `veh_${number}`),
    );
  }
});

test("searchAll reads the pages again if the stock changes, and says if vehicles may be missing", async (context) => {
  const once = await dealer(context, { respond: stock(20, (skip, number) => (number === 2 ? skip + 1 : skip)) });
  const found = await collected((await DealerAgent.discover(once.url)).searchAll({}, { pageSize: 9 }));
  assert.equal(new Set(found.map(({ vehicle_id }) => vehicle_id)).size, 20);
  assert.equal(found.length, 20);

  const always = await dealer(context, { respond: stock(20, (skip, number) => skip + number) });
  const agent = await DealerAgent.discover(always.url);
  await assert.rejects(collected(agent.searchAll({}, { pageSize: 9 })), client.SearchIncomplete);
  await assert.rejects(collected(agent.searchAll({}, { pageSize: 9, max: 3 })), { name: "SearchIncomplete", seen: 3 });
});

test("a wrong filter, order or page is refused before anything is sent", async (context) => {
  const { url, requests } = await dealer(context, { respond: (request) => reply(request, PAGE) });
  const agent = await DealerAgent.discover(url);
  const wrong = [
    [{ prcie_min: 1 }, {}, "/filters/prcie_min is not known"],
    [{ make: "Honda" }, {}, "/filters/make must be array"],
    [{ condition: ["old"] }, {}, "/filters/condition/0 must be one of cpo, new, used"],
    [{ year_min: 1899 }, {}, "/filters/year_min must be at least 1900"],
    [{ vin: "1" }, {}, "/filters/vin must match"],
    [{ query: "x".repeat(201) }, {}, "/filters/query must have at most 200 characters"],
    [{}, { sort: "-colour" }, "/sort/field must be one of"],
    [{}, { limit: 1_001 }, "/pagination/limit must be at most 1000"],
  ];
  for (const [filters, options, message] of wrong) {
    const error = await agent.search(filters, options).catch((caught) => caught);
    assert(error instanceof client.InvalidRequest, error);
    assert(error.message.includes(message), error.message);
  }
  assert.throws(() => agent.searchAll({ prcie_min: 1 }), client.InvalidRequest);
  await assert.rejects(agent.facets({ prcie_min: 1 }), client.InvalidRequest);
  await assert.rejects(agent.vehicle({}), client.InvalidRequest);
  assert.equal(requests.length, 0);
});

const MALFORMED = {
  "is not JSON": () => ({ body: "<html>" }),
  "answers another call": (request) => reply({ body: { ...request.body, id: "other" } }, PAGE),
  "has no data": (request) => ({ body: { jsonrpc: "2.0", id: request.body.id, result: {} } }),
  "has a text in the place of a number": (request) => reply(request, { ...PAGE, total: "1" }),
  "is nested too deep": () => ({ body: `{"error":${"[".repeat(200_000)}${"]".repeat(200_000)}}` }),
};

for (const [name, respond] of Object.entries(MALFORMED)) {
  test(`a response that ${name} is malformed`, async (context) => {
    const { url } = await dealer(context, { respond });
    await assert.rejects((await DealerAgent.discover(url, AT_ONCE)).search(), client.MalformedResponse);
  });
}

test("a response without end is cut", async (context) => {
  const respond = () => ({ body: "x".repeat(17 * 1024 * 1024) });
  const { url } = await dealer(context, { respond });
  const error = await (await DealerAgent.discover(url)).search().catch((caught) => caught);
  assert(error instanceof client.MalformedResponse, error);
  assert.match(error.message, /sent more than 16777216 bytes/);
  assert.equal(error.body.length, 2_000);
});

test("an unknown error code is a plain Refused with everything that the response says", async (context) => {
  const errors = [{ instanceLocation: "/filters", error: "too many", keyword: "maxProperties" }];
  const respond = (request) => refusal(request, "OUT_OF_SEASON", false, { errors });
  const { url } = await dealer(context, { respond });
  const error = await (await DealerAgent.discover(url)).search().catch((caught) => caught);
  assert.equal(error.constructor, client.Refused);
  assert.equal(error.message, "OUT_OF_SEASON: No");
  assert.deepEqual(
    [error.code, error.reason, error.errorId, error.jsonRpcCode, error.httpStatus],
    ["OUT_OF_SEASON", "No", "err_1", -32000, 200],
  );
  assert.deepEqual(error.problems, [{ pointer: "/filters", message: "too many", keyword: "maxProperties" }]);
});

test("the token goes to allowed origins only, and to no log", async (context) => {
  const changes = (url) => ({
    supportedInterfaces: [{ url: `${url.replace("127.0.0.1", "localhost")}/rpc`, protocolBinding: "JSONRPC" }],
  });
  const respond = (request) => reply(request, PAGE);
  const { url, requests, cardRequests } = await dealer(context, { respond, changes });
  const seen = [];
  const agent = await DealerAgent.discover(url, { token: "secret", onExchange: (exchange) => seen.push(exchange) });
  await agent.search();
  assert.equal(requests[0].headers.authorization, "Bearer secret");
  assert(!seen.some(({ requestHeaders }) => "Authorization" in requestHeaders));
  assert.deepEqual(cardRequests.map(({ headers }) => headers.authorization), [undefined]);
  assert(!JSON.stringify(seen).includes("secret"));
  assert.match(requests[0].headers["user-agent"], /^dealer-agent-client\//);

  const foreign = [{ url: "https://elsewhere.example/rpc", protocolBinding: "JSONRPC" }];
  const leading = await dealer(context, { respond: () => "hang up", changes: { supportedInterfaces: foreign } });
  await assert.rejects(DealerAgent.discover(leading.url, { token: "secret" }), /tokenOrigins/);
  const allowed = { token: "secret", tokenOrigins: ["https://elsewhere.example"] };
  assert.equal((await DealerAgent.discover(leading.url, allowed)).card.endpoint, foreign[0].url);
  await assert.rejects(DealerAgent.discover(url, { headers: { authorization: "x" } }), client.InvalidRequest);
});

test("a card is followed through redirects, and never to another protocol or without end", async (context) => {
  const respond = (request) => reply(request, PAGE);
  const target = await dealer(context, { respond });
  const to = (location) => ({ "/.well-known/agent-card.json": () => ({ status: 302, body: "", headers: { location } }) });
  const www = await dealer(context, { respond, get: to(`${target.url}/.well-known/agent-card.json`) });
  assert.equal((await DealerAgent.discover(www.url)).card.url, `${target.url}/.well-known/agent-card.json`);
  for (const location of ["/.well-known/agent-card.json", "file:///etc/passwd"]) {
    const bad = await dealer(context, { respond, get: to(location) });
    await assert.rejects(DealerAgent.discover(bad.url), client.NotADealerAgent);
  }
});

test("what is not the card of a dealer agent is refused", async (context) => {
  const respond = () => "hang up";
  const wrong = [
    { skills: [{ id: "weather" }] },
    { supportedInterfaces: [] },
    { supportedInterfaces: [{ url: "http://10.0.0.1/rpc", protocolBinding: "JSONRPC" }] },
    { supportedInterfaces: [{ url: "https://dealer.example", protocolBinding: "GRPC" }] },
    { name: 7 },
  ];
  for (const changes of wrong) {
    const { url } = await dealer(context, { respond, changes });
    await assert.rejects(DealerAgent.discover(url), client.NotADealerAgent);
  }
  const deep = { "/.well-known/agent-card.json": () => ({ body: `${"[".repeat(200_000)}${"]".repeat(200_000)}` }) };
  const { url } = await dealer(context, { respond, get: deep });
  await assert.rejects(DealerAgent.discover(url), client.NotADealerAgent);
  await assert.rejects(DealerAgent.discover("ftp://dealer.example"), client.NotADealerAgent);
});
