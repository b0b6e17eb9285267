// An owner signs in to the console in each way and follows its links, and a salesperson opens the first lead.
// Everything but the address bar is used with the keyboard alone.
// Arguments: the link of an invitation, the path of the dealer's pages, a folder for pictures, an e-mail address.
// It prints, as JSON, what it saw, and judges nothing: the tests that call it do.

import { createHmac } from "node:crypto";
import { launched } from "./browser.js";
import { looksAt } from "./looking.js";
import { answered, person, troubles } from "./person.js";

const [link, start, pictures, email] = process.argv.slice(2);
const origin = new URL(link).origin;
const PASSWORD = "a password of the browser";
const STEP = 30_000;
const steps = {};
const stories = {};
const looks = [];

/** The one-time code of a secret in base 32, a number of steps before now (RFC 6238). */
function code(secret, ago = 0) {
  const bits = [...secret].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP) - ago));
  const mac = createHmac("sha1", key).update(counter).digest();
  const number = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

const browser = await launched();
const owner = await person(browser);
const { page, press, follow, type, tick } = owner;
const look = async (name) => looks.push(...(await looksAt(page, name, pictures)));
const path = () => new URL(page.url()).pathname;
const account = () => page.goto(`${origin}/console/account`);

// The invitation, and a passkey.
await page.goto(link);
await look("outside-invitation");
await press("Accept the invitation");
await look("outside-first-account");
await press("Add a passkey");
steps.added = await page.getByRole("status").textContent();

// Recovery codes, a password, and the sign-out.
await press("Make new recovery codes");
await look("outside-recovery-codes");
const codes = await page.locator(".codes code").allTextContents();
steps.codes = codes.length;
await follow("I have them");
await follow("Set them up");
const secret = await page.locator("ol code").textContent();
// A code serves once: that of the step before sets the password, the present one serves the sign-in, the next one the proof.
const left = STEP - (Date.now() % STEP);
if (left < STEP / 2) await page.waitForTimeout(left);
await type(page.getByLabel("New password"), PASSWORD);
await type(page.getByLabel("Code of the app"), code(secret, 1));
await press("Save");
await press("Sign out");

// Back: the page before is not shown again.
await page.goBack();
steps.back = path();

// Each way to sign in.
await page.goto(`${origin}/console/sign-in`);
await look("outside-sign-in");
await press("Sign in with a passkey");
steps.passkey = path();
await press("Sign out");
await type(page.getByLabel("E-mail address"), email);
await type(page.getByLabel("Password"), PASSWORD);
await type(page.getByLabel("Code of your app"), code(secret));
await owner.submit(page.getByRole("button", { name: "Sign in", exact: true }));
steps.password = path();

// The proof before something important, and a passkey that is lost.
await page.goto(`${origin}/console/prove?next=${start}/people`);
await look("outside-prove");
await type(page.getByLabel("Password"), PASSWORD);
await type(page.getByLabel("Code of your app"), code(secret, -1));
await press("Go on");
steps.proved = path();
await account();
await press("Remove This device");
steps.removed = await page.getByRole("status").textContent();
await owner.loseKeys();
await press("Sign out");
await follow("Use a recovery code");
await look("outside-recover");
await type(page.getByLabel("E-mail address"), email);
await type(page.getByLabel("Recovery code"), codes[0]);
await press("Sign in");
steps.recovery = path();
await press("Add a passkey");

/** What pages of one kind have in common: their path without ids, and the names in their query. */
function kind(of) {
  const { pathname, searchParams } = new URL(of, origin);
  return pathname.replace(/\/[0-9A-Z]{17,}|\/\d+/g, "/*") + [...searchParams.keys()].filter((name) => name !== "page").sort();
}

// Every kind of page that a link leads to. The proof is made again before it ends.
const pages = [start, "/console/account", "/console/account/password"];
const kinds = new Set(pages.map(kind));
let provedAt = Date.now();
const opened = [];
for (const each of pages) {
  if (Date.now() - provedAt > 120_000) {
    await page.goto(`${origin}/console/prove`);
    await press("Use your passkey");
    provedAt = Date.now();
  }
  const answer = await page.goto(origin + each);
  opened.push({ path: each, status: answer.status(), bytes: (await answer.body()).length });
  for (const found of await page.locator("a[href]").evaluateAll((links) => links.map((a) => a.href))) {
    const { origin: of, pathname, search } = new URL(found);
    if (of !== origin || !pathname.startsWith(start) || kinds.has(kind(pathname + search))) continue;
    kinds.add(kind(pathname + search));
    if (pages.length < 80) pages.push(pathname + search);
  }
  await look(each.replace(start, "").replace("/console/", "").replace(/[^a-z0-9]+/gi, "-").replace(/^-/, "") || "today");
}

// A salesperson on a phone: from the invitation to the first opened lead.
await page.goto(`${origin}${start}/people/invite`);
await type(page.getByLabel("E-mail address"), "sam@example.com");
await tick(page.locator("input[name=role][value=sales]"));
await press("Make the invitation");
const invitation = await page.locator("input.link").inputValue();
const sam = await person(browser, "phone");
const began = Date.now();
await sam.page.goto(invitation);
await sam.press("Accept the invitation");
await sam.press("Add a passkey");
await sam.follow("Go to the console");
await sam.follow("Leads");
await sam.submit(sam.page.locator("td a"));
await sam.page.getByRole("heading", { name: "Customer" }).waitFor();
stories.lead = await sam.page.title();
stories.seconds = (Date.now() - began) / 1000;

// The owner removes the salesperson.
await page.goto(`${origin}${start}/people`);
await follow("sam@example.com");
await press("Remove sam@example.com");
stories.removed = await page.getByRole("status").textContent();
await sam.page.reload();
stories.sam = new URL(sam.page.url()).pathname;
await browser.close();
process.stdout.write(JSON.stringify({ steps, stories, opened, looks, troubles, answered: [...answered] }));
