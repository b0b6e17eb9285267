// An owner does every act of every page of the console, with the keyboard alone.
// Arguments: the link of an invitation, the path of the dealer's pages, a folder for pictures, a lead as a buyer agent
// sends it, as JSON, and the id of a dropped file that was not read to its end.
// It prints, as JSON, what the page said after each act, and judges nothing: the tests that call it do.

import { launched } from "./browser.js";
import { looksAt } from "./looking.js";
import { answered, person, troubles } from "./person.js";

const [link, start, pictures, lead, unread] = process.argv.slice(2);
const origin = new URL(link).origin;
const said = {};
const looks = [];
const kinds = new Set();
const browser = await launched();
const owner = await person(browser);
const { page, enter, press, follow, submit, type, typeTime, tick, choose, pickFile } = owner;

const open = (...parts) => page.goto([origin + start, ...parts].join("/"));
const account = () => page.goto(`${origin}/console/account`);
/** A day some days from now, as a field has it. */
const day = (days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** What the page says: the sentence after an act, else its heading. */
async function words() {
  const status = page.locator("p.said[role=status]");
  return (await status.count()) ? status.first().textContent() : page.getByRole("heading", { level: 1 }).textContent();
}

/** Looks at the page, unless one with the same headings was seen. */
async function look(name) {
  const headings = await page.locator("title, h1, h2, h3, summary").allTextContents();
  const kind = headings.join("|").replace(/[0-9A-Z]{17,}|\d+/g, "*");
  if (kinds.has(kind)) return;
  kinds.add(kind);
  looks.push(...(await looksAt(page, `after-${name}`, pictures)));
}

let provedAt = Date.now();
async function prove() {
  await page.goto(`${origin}/console/prove?next=${start}`);
  await press("Use your passkey");
  provedAt = Date.now();
}

/** Does an act. A proof of who the person is holds for five minutes, so it is made again first if it is old. */
async function act(name, work) {
  if (Date.now() - provedAt > 120_000) await prove();
  await goOn(name, work);
}

/** Does an act on the page that is open. */
async function goOn(name, work) {
  try {
    await work();
    said[name] = (await words()).trim();
    await look(name);
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
let sent;
page.on("request", (request) => request.url().includes("/sign-in/passkey?") && (sent = request));
await press("Sign out");
await press("Sign in with a passkey");
// The same answer of the passkey once more.
said.replayed = await page.evaluate(
  async ([url, body]) => (await fetch(url, { method: "POST", body })).status,
  [sent.url(), sent.postData()],
);
troubles.length = 0;
await act("prove", prove);

// Today: what waits for a person.
await act("retry", () => open().then(() => press(/^Try now/)));
await act("reached", () => open().then(() => press(/^Reached/)));
await act("took-place", () => open().then(() => press(/^Took place/)));
await act("asked", () => open().then(() => follow(/^Arrange a time/)));
await act("confirm", async () => {
  await enter(page.getByText("Confirm", { exact: true }));
  const form = page.locator("form[action$='/confirm']");
  await typeTime(form.locator("input[name=at]"), day(4));
  await tick(form.locator("input[name=force]"));
  await press("Confirm the visit");
});
await act("no-show", async () => {
  await open("visits");
  await press("Did not come");
});

// A lead, and its visit.
let opened;
await act("mark", async () => {
  await open("leads");
  await owner.submit(page.locator("td a"));
  opened = page.url();
  await press(/^Reached$/);
});
await act("note", async () => {
  await page.goto(opened);
  await type(page.getByLabel("Note", { exact: true }), "Wants to come on Saturday.");
  await press("Add the note");
});
await act("resend", () => page.goto(opened).then(() => press("Send it again to all who have it")));
await act("arrange", async () => {
  await page.goto(opened);
  await enter(page.getByText("Arrange a visit"));
  const form = page.locator("form[action$='/visit']");
  await typeTime(form.locator("input[name=at]"), day(2));
  await tick(form.locator("input[name=force]"));
  await press("Book the visit");
});
await act("move", async () => {
  await page.goto(opened);
  await enter(page.getByText("Move", { exact: true }));
  const form = page.locator("form[action$='/move']").first();
  await typeTime(form.locator("input[name=at]"), day(3));
  await tick(form.locator("input[name=force]"));
  await press("Move the visit");
});
await act("cancel", async () => {
  await page.goto(opened);
  await enter(page.getByText("Cancel", { exact: true }));
  await press("Cancel the visit");
});
await open("leads/export");
await download("export", () => enter(page.getByRole("button", { name: "Download" })));
await act("search", async () => {
  await open("leads");
  await type(page.getByLabel("Name, e-mail address or phone number"), "customer1@example.com");
  await press("Search");
});
await act("visits", async () => {
  await open("visits");
  await choose(page.locator("select[name=view]"), "week");
  await press("Show");
});

// Agents: a policy, leads that wait for a decision, and tokens.
async function policy(state) {
  await open("agents/agent?id=anonymous");
  await tick(page.locator(`input[name=state][value=${state}]`));
  await type(page.getByLabel("Why?"), "A test of the console.");
  await press("Change it");
}
/** Opens a lead that waits in quarantine, once the service uses the policy. */
async function openWaiting(name) {
  for (let tries = 0; tries < 40; tries += 1) {
    const body = JSON.parse(lead);
    const customer = { first_name: name, last_name: `Waiting${tries}`, email: `${name}${tries}@example.com` };
    Object.assign(body.message.parts[0].data, { customer });
    const headers = { "content-type": "application/json" };
    await fetch(`${origin}/message:send`, { method: "POST", headers, body: JSON.stringify(body) });
    await open("leads?state=quarantine");
    if (await page.locator("td a").count()) return owner.submit(page.locator("td a"));
  }
  throw new Error("no lead waits");
}
await act("quarantine", () => policy("quarantine"));
await act("waits", () => openWaiting("robin"));
await goOn("release", () => press("Release: send it to everybody"));
await act("refuse", async () => {
  await openWaiting("kim");
  await type(page.getByLabel("Why it is refused"), "The number is wrong.");
  await press("Refuse it for good");
});
await act("allow", () => policy("allow"));
await act("token", async () => {
  await open("agents/tokens");
  await type(page.getByLabel("Whom is it for?"), "A shopping agent");
  await press("Make the token");
});
said.shown = (await page.locator("input[readonly]").inputValue()).slice(0, 4);
await act("revoke", async () => {
  await open("agents/tokens");
  await press(/Revoke/);
});
await act("ask", async () => {
  await open("ask?skill=inventory.search");
  await submit(page.locator("main").getByRole("button", { name: "Ask", exact: true }));
});
said.wire = (await page.locator("pre").allTextContents()).some((text) => text.includes("inventory.search.response"));
await act("ask-lead", async () => {
  await open("ask?skill=lead.submit");
  await press("Show the request");
});

// Stock.
await act("hide", async () => {
  await open("stock");
  await owner.submit(page.locator("td a"));
  await press("Hide from agents");
});
await act("show", async () => {
  await open("stock/held");
  await press(/^Release/);
});
// Without a new proof: right after one, Chromium opens no file chooser for a key.
await goOn("drop", async () => {
  await open("stock/import");
  const feed = { name: "export.csv", mimeType: "text/csv", buffer: Buffer.from("VIN,Stock,Make,Price\n,Z1,Honda,9000\n") };
  await pickFile(page.locator("input[type=file]"), feed);
  await press("Show what it would change");
  await page.getByText("Nothing is changed yet").waitFor();
});
await goOn("discard", () => press("Delete the file, and change nothing"));
await act("unread", () => open("stock/import", unread));
await goOn("again", async () => {
  await press("Read it again");
  await page.getByText("Nothing is changed yet").waitFor();
});
await act("look-at-refused", async () => {
  await open("stock/feeds");
  await press(/^Look at/);
  await page.getByRole("heading", { name: "The checks refuse this file" }).waitFor();
});
await goOn("accept", async () => {
  for (const box of await page.locator("input[name=accept]").all()) await tick(box);
  await type(page.getByLabel("Why is the file right?"), "We sold the others.");
  await press("Accept, and import it");
  await page.getByText("The file is imported").waitFor();
});
await act("undo", async () => {
  await open("stock/undo");
  await press("Undo it");
});

// The hold of an agent.
await act("hold-extended", async () => {
  await open("holds");
  await follow(/^Open/);
  await type(page.getByLabel("Hours from now"), "24");
  await press("Extend the hold");
});
await goOn("hold-ended", async () => {
  await type(page.getByLabel("Why it ends, for your own record"), "We sold it at the counter.");
  await press(/^End the hold/);
});

// Settings, with a way back.
await act("difference", async () => {
  await open("settings/change?path=welcome_message");
  await type(page.getByLabel(/Value/), "Welcome to the browser.");
  await press("Show the difference");
});
await goOn("change", () => press("Save"));
await act("back", async () => {
  await open("settings/history/1");
  await press("Use these settings again");
  await press("Save");
});

// Privacy.
async function find(contact) {
  await open("privacy");
  await type(page.getByLabel("E-mail address or phone number"), contact);
  await press("Find the customer");
}
await act("find", () => find("customer2@example.com"));
await goOn("proof", () => press("Show the proof"));
await find("customer2@example.com");
await download("record", () => enter(page.getByRole("button", { name: "Export the consent record" })));
await act("withdraw", () => find("customer2@example.com").then(() => press("Record the withdrawal")));
async function erase() {
  await tick(page.getByLabel("I know that this cannot be undone"));
  await submit(page.getByRole("button", { name: "Erase", exact: true }));
}
await act("erase-customer", async () => {
  await find("customer3@example.com");
  await press("Erase all leads of this customer");
});
await goOn("erased-customer", erase);
await act("erase-lead", () => page.goto(opened).then(() => follow("Erase the customer")));
await goOn("erased-lead", erase);
await act("erased", () => page.goto(opened));
await act("log", () => open("privacy/log"));

// People.
await act("invite", async () => {
  await open("people/invite");
  await type(page.getByLabel("E-mail address"), "kim@example.com");
  await tick(page.locator("input[name=role][value=viewer]"));
  await press("Make the invitation");
});
await goOn("role", async () => {
  const kim = await person(browser);
  await kim.page.goto(await page.locator("input.link").inputValue());
  await kim.press("Accept the invitation");
  await open("people");
  await follow("kim@example.com");
  await tick(page.locator("input[name=role][value=sales]"));
  await press("Change the role");
});
await goOn("person", () => follow("kim@example.com"));
await goOn("session", () => press("End"));
await goOn("again-invited", () => press("Invite again"));
await act("remove", async () => {
  await open("people");
  await follow("kim@example.com");
  await press("Remove kim@example.com");
});

// Health, and the own account.
await act("health", async () => {
  await open("health");
  await press("Check everything now");
});
said.checks = await page.locator("td[data-label=Check]").count();
await act("codes", () => account().then(() => press("Make new recovery codes")));
await act("last-way", () => account().then(() => press("Remove This device")));
await act("own", () => account().then(() => press("End")));
await browser.close();
process.stdout.write(JSON.stringify({ said, looks, troubles, answered: [...answered] }));
