// Opens a page of another origin (PAGE), which has a cookie, in a real browser, and lets it call the service (URL).
// Prints, as JSON, what the page could read of each call, and the cookies that the browser sent to the service.
// It judges nothing: the test that calls it does.

import { launched } from "./browser.js";

const { PAGE, URL: SERVICE, SEARCH } = process.env;

/** In the page: what a script can read of one call. */
async function called({ url, method = "POST", body, headers = {}, credentials }) {
  try {
    const answer = await fetch(url, { method, body, credentials, headers });
    return {
      status: answer.status,
      requestId: answer.headers.get("x-request-id"),
      authenticate: answer.headers.get("www-authenticate"),
      body: await answer.json(),
    };
  } catch (error) {
    return { refused: error.name };
  }
}

const json = { "content-type": "application/json", "a2a-version": "1.0" };
const rpc = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage", params: JSON.parse(SEARCH) });
const send = `${SERVICE}/message:send`;
const calls = {
  itself: { url: PAGE, method: "GET" },
  card: { url: `${SERVICE}/.well-known/agent-card.json`, method: "GET" },
  search: { url: send, body: SEARCH, headers: json },
  rpc: { url: `${SERVICE}/rpc`, body: rpc, headers: json },
  malformed: { url: send, body: "{", headers: json },
  token: { url: send, body: SEARCH, headers: { ...json, authorization: "Bearer wrong" } },
  type: { url: send, body: SEARCH, headers: { "content-type": "text/plain" } },
  nothing: { url: `${SERVICE}/nosuch`, body: SEARCH, headers: json },
  cardWithCookies: { url: `${SERVICE}/cards/0.1.0.json`, method: "GET", credentials: "include" },
  withCookies: { url: send, body: SEARCH, headers: json, credentials: "include" },
  otherHeader: { url: send, body: SEARCH, headers: { ...json, "x-other": "1" } },
  health: { url: `${SERVICE}/readyz`, method: "GET" },
};

const browser = await launched();
const page = await (await browser.newContext()).newPage();
const sent = [];
let name;
page.on("request", (request) => {
  if (name) sent.push([name, request.allHeaders()]);
});
await page.goto(PAGE, { waitUntil: "load" });
const read = {};
for (const [each, call] of Object.entries(calls)) {
  name = each;
  read[each] = await page.evaluate(called, call);
}
const cookies = {};
for (const [each, headers] of sent) cookies[each] = (await headers).cookie ?? null;
await browser.close();
console.log(JSON.stringify({ read, cookies }));
