// An owner does every act of every page of the console with a real browser (CHROMIUM).
// Arguments: the link of an invitation, the path of the dealer's pages, and a lead as a buyer agent sends it, as JSON.
// It prints, as JSON, what the page said after each act, and judges nothing: the tests that call it do.

import { launched } from "./browser.js";

const [link, start, lead] = process.argv.slice(2);
const origin = new URL(link).origin;
const said = {};
const browser = await launched();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
page.setDefaultTimeout(60_000);
const cdp = await context.newCDPSession(page);
await cdp.send("WebAuthn.enable");
const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true };
await cdp.send("WebAuthn.addVirtualAuthenticator", { options: { ...options, isUserVerified: true } });

const open = (...parts) => page.goto([origin + start, ...parts].join("/"));
const press = (name) => page.getByRole("button", { name }).first().click();
/** A time of the clock, some days from now at ten, as a field has it. */
const day = (days) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)}T10:00`;
/** What the page says: the sentence after an act, else its heading. */
async function words() {
  await page.waitForLoadState();
  const status = page.locator("p.said[role=status]");
  return (await status.count()) ? status.first().textContent() : page.getByRole("heading", { level: 1 }).textContent();
}
async function act(name, work) {
  try {
    await work();
    said[name] = (await words()).trim();
  } catch (error) {
    said[name] = `failed at ${page.url()}: ${error.message.slice(0, 300)}`;
  }
}
async function download(name, work) {
  const [file] = await Promise.all([page.waitForEvent("download"), work()]);
  said[name] = file.suggestedFilename();
}

await page.goto(link);
await press("Accept the invitation");
await press("Add a passkey");
await page.waitForURL("**/console/account?said=passkey-added");
let sent;
page.on("request", (request) => request.url().includes("/sign-in/passkey?") && (sent = request));
await press("Sign out");
await press("Sign in with a passkey");
await page.waitForURL((url) => !url.pathname.endsWith("/sign-in"));
// The same answer of the passkey once more.
said.replayed = await page.evaluate(
  async ([url, body]) => (await fetch(url, { method: "POST", body })).status,
  [sent.url(), sent.postData()],
);

// Leads and visits.
await open("leads");
await page.locator("td a").first().click();
const opened = page.url();
await act("mark", () => press(/^reached$/));
await act("note", async () => {
  await page.getByLabel("Note", { exact: true }).fill("Wants to come on Saturday.");
  await press("Add the note");
});
await act("resend", () => press("Send it again to all who have it"));
await page.goto(opened);
await act("arrange", async () => {
  await page.getByText("Arrange a visit").click();
  const form = page.locator("form[action$='/visit']");
  await form.locator("input[name=at]").fill(day(2));
  await form.locator("input[name=force]").check();
  await form.getByRole("button", { name: "Book the visit" }).click();
});
await act("move", async () => {
  await page.getByText("Move", { exact: true }).first().click();
  const form = page.locator("form[action$='/move']").first();
  await form.locator("input[name=at]").fill(day(3));
  await form.locator("input[name=force]").check();
  await form.getByRole("button", { name: "Move the visit" }).click();
});
await act("cancel", async () => {
  await page.getByText("Cancel", { exact: true }).first().click();
  await press("Cancel the visit");
});
await open("leads/export");
await download("export", () => press("Download"));
await act("search", async () => {
  await open("leads");
  await page.getByLabel("Name, e-mail address or phone number").fill("robin1@example.com");
  await press("Search");
});
await act("visits", async () => {
  await open("visits");
  await page.locator("select[name=view]").selectOption("week");
  await press("Show");
});

// Agents: a policy, a lead that waits, and tokens.
async function policy(state) {
  await open("agents/agent?id=anonymous");
  await page.locator(`input[name=state][value=${state}]`).check();
  await page.getByLabel("Why?").fill("A test of the console.");
  await press("Change it");
}
await act("quarantine", () => policy("quarantine"));
for (let tries = 0; tries < 40 && !said.release; tries += 1) {
  const customer = { first_name: `Waiting${tries}`, last_name: "Browser", email: `waiting${tries}@example.com` };
  const body = JSON.parse(lead);
  Object.assign(body.message.parts[0].data, { customer });
  await fetch(`${origin}/message:send`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await open("leads?state=quarantine");
  if (!(await page.locator("td a").count())) continue;
  await page.locator("td a").first().click();
  await act("release", () => press("Release: send it to everybody"));
}
await act("allow", () => policy("allow"));
await act("token", async () => {
  await open("agents/tokens");
  await page.getByLabel("Whom is it for?").fill("A shopping agent");
  await press("Make the token");
});
said.shown = (await page.locator("input[readonly]").inputValue()).slice(0, 4);
await act("revoke", async () => {
  await open("agents/tokens");
  await press(/Revoke/);
});
await act("ask", async () => {
  await open("ask");
  await page.locator("main").getByRole("button", { name: "Ask", exact: true }).click();
});
said.wire = (await page.locator("pre").allTextContents()).some((text) => text.includes("inventory.search.response"));

// Stock.
await act("hide", async () => {
  await open("stock");
  await page.locator("td a").first().click();
  await press("Hide from agents");
});
await act("show", async () => {
  await open("stock/held");
  await press(/^Release/);
});
await act("undo", async () => {
  await open("stock/undo");
  await press("Undo it");
});

// Settings, with an undo.
await act("change", async () => {
  await open("settings/change?place=welcome_message");
  await page.getByLabel(/Value/).fill("Welcome to the browser.");
  await press("Show the difference");
  await press("Save");
});
await act("back", async () => {
  await open("settings/history/1");
  await press("Use these settings again");
  await press("Save");
});

// Privacy.
async function find() {
  await open("privacy");
  await page.getByLabel("E-mail address or phone number").fill("robin2@example.com");
  await press("Find the customer");
}
await act("proof", async () => {
  await find();
  await press("Show the proof");
});
await find();
await download("record", () => press("Export the consent record"));
await act("withdraw", async () => {
  await find();
  await press("Record the withdrawal");
});
await act("log", () => open("privacy/log"));

// People, health, the own account.
await act("invite", async () => {
  await open("people/invite");
  await page.getByLabel("E-mail address").fill("kim@example.com");
  await page.locator("input[name=role][value=viewer]").check();
  await press("Make the invitation");
});
await act("role", async () => {
  const other = await browser.newPage();
  await other.goto(await page.locator("input.link").inputValue());
  await other.getByRole("button", { name: "Accept the invitation" }).click();
  await other.waitForURL("**/console/account");
  await open("people");
  await page.getByRole("link", { name: "kim@example.com" }).click();
  await page.locator("input[name=role][value=manager]").check();
  await press("Change the role");
});
await act("session", async () => {
  await page.getByRole("link", { name: "kim@example.com" }).click();
  await press("End");
});
await act("again", () => press("Invite again"));
await act("health", async () => {
  await open("health");
  await press("Check everything now");
});
said.checks = await page.locator("td[data-label=Check]").count();
await act("codes", async () => {
  await page.goto(`${origin}/console/account`);
  await press("Make new recovery codes");
});
await act("own", async () => {
  await page.goto(`${origin}/console/account`);
  await press("End");
});
await browser.close();
process.stdout.write(JSON.stringify(said));
