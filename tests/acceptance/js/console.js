// A person uses the console with a real browser (CHROMIUM), a virtual authenticator and the keyboard.
// Arguments: the link of an invitation, the path of the dealer's pages, a folder for pictures, an e-mail address.
// It follows the links of the pages, and looks at one page of each kind.
// It prints, as JSON, what it saw, and judges nothing: the tests that call it do.

import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { launched } from "./browser.js";

const [link, start, pictures, email] = process.argv.slice(2);
const origin = new URL(link).origin;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENS = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const PASSWORD = "a password of the browser";

/** The one-time code of a secret in base 32, now (RFC 6238). */
function code(secret, ago = 0) {
  const bits = [...secret].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) - ago));
  const mac = createHmac("sha1", key).update(step).digest();
  const number = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/** What axe-core finds wrong with the page, as "rule: element". */
async function violations(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations: found } = await axe.run(document, { resultTypes: ["violations"] });
    return found.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.target} (${node.failureSummary})`));
  });
}

/** Whether the Tab key reaches every link, button and field that is shown. */
async function unreached(page) {
  const count = await page.evaluate(() => {
    const stops = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
    const shown = stops.filter((stop) => stop.checkVisibility() && !stop.disabled && stop.tabIndex >= 0);
    shown.forEach((stop, number) => (stop.dataset.stop = number));
    document.activeElement.blur();
    return shown.length;
  });
  const reached = new Set();
  for (let number = 0; number < count + 5; number += 1) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const at = document.activeElement;
      // Only one radio button of a group is a stop. The arrow keys reach the others.
      const group = at.type === "radio" ? [...document.querySelectorAll(`input[name="${at.name}"]`)] : [at];
      return group.map((each) => each.dataset?.stop);
    });
    focus.forEach((stop) => reached.add(stop));
  }
  return page.evaluate((known) => {
    const all = [...document.querySelectorAll("[data-stop]")];
    return all.filter((stop) => !known.includes(stop.dataset.stop)).map((stop) => stop.outerHTML.slice(0, 120));
  }, [...reached]);
}

const troubles = [];
const browser = await launched();
const context = await browser.newContext({ viewport: SCREENS.desk });
const page = await context.newPage();
page.on("pageerror", (error) => troubles.push(`error: ${error}`));
page.on("console", (message) => message.type() === "error" && troubles.push(`console: ${message.text()}`));
const cdp = await context.newCDPSession(page);
await cdp.send("WebAuthn.enable");
const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true };
const authenticator = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: { ...options, isUserVerified: true } });
const seen = { steps: {}, looks: [], troubles };

// The invitation, with the keyboard only.
await page.goto(link);
await page.keyboard.press("Tab");
while ((await page.evaluate(() => document.activeElement.tagName)) !== "BUTTON") await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.waitForURL("**/console/account");
await page.getByRole("button", { name: "Add a passkey" }).press("Enter");
await page.waitForURL("**/console/account?said=passkey-added");
seen.steps.added = await page.getByRole("status").textContent();

// Codes, a password, and the sign-out.
await page.getByRole("button", { name: "Make new recovery codes" }).press("Enter");
const codes = await page.locator(".codes code").allTextContents();
seen.steps.codes = codes.length;
await page.goto(`${origin}/console/account/password`);
const secret = await page.locator("ol code").textContent();
await page.getByLabel("New password").fill(PASSWORD);
// The code before the present one is taken for half a minute, and the present one then serves the sign-in.
const left = 30_000 - (Date.now() % 30_000);
if (left < 10_000) await page.waitForTimeout(left);
await page.getByLabel("Code of the app").fill(code(secret, 1));
await page.getByRole("button", { name: "Save" }).press("Enter");
await page.waitForURL("**/console/account?said=password-set");
await page.getByRole("button", { name: "Sign out" }).press("Enter");
await page.waitForURL("**/console/sign-in?said=signed-out");

// Back: the page before is not shown again.
await page.goBack();
seen.steps.back = new URL(page.url()).pathname;

// Each way to sign in.
await page.goto(`${origin}/console/sign-in`);
await page.getByRole("button", { name: "Sign in with a passkey" }).press("Enter");
await page.waitForURL((url) => !url.pathname.endsWith("/sign-in"));
seen.steps.passkey = new URL(page.url()).pathname;
await page.getByRole("button", { name: "Sign out" }).press("Enter");
await page.waitForURL("**/console/sign-in?said=signed-out");
await page.getByLabel("E-mail address").fill(email);
await page.getByLabel("Password").fill(PASSWORD);
await page.getByLabel("Code of your app").fill(code(secret));
await page.getByRole("button", { name: "Sign in", exact: true }).press("Enter");
await page.waitForURL((url) => !url.pathname.endsWith("/sign-in"));
seen.steps.password = new URL(page.url()).pathname;
await page.getByRole("button", { name: "Sign out" }).press("Enter");
await page.goto(`${origin}/console/recover`);
await page.getByLabel("E-mail address").fill(email);
await page.getByLabel("Recovery code").fill(codes[0]);
await page.getByRole("button", { name: "Sign in" }).press("Enter");
await page.waitForURL("**/console/account");
seen.steps.recovery = new URL(page.url()).pathname;

// Another person's authenticator, which has no passkey for this page, opens nothing.
await cdp.send("WebAuthn.clearCredentials", { authenticatorId: authenticator.authenticatorId });

/** What pages of one kind have in common: their path without ids, and the names in their query. */
function kind(path) {
  const { pathname, searchParams } = new URL(path, origin);
  return pathname.replace(/\/[0-9A-Z]{17,}|\/\d+/g, "/*") + [...searchParams.keys()].filter((name) => name !== "page").sort();
}

// Every kind of page that a link leads to, on each screen, in each colour scheme.
const pages = [start, "/console/account", "/console/account/password", "/console/prove"];
const kinds = new Set(pages.map(kind));
for (const path of pages) {
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const answer = await page.goto(origin + path);
      const look = { path, screen, colorScheme, status: answer.status(), title: await page.title() };
      look.bytes = (await answer.body()).length;
      look.beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      // The colours are the same on both screens.
      look.violations = screen === "desk" ? await violations(page) : [];
      look.unreached = screen === "desk" && colorScheme === "light" ? await unreached(page) : [];
      for (const found of await page.locator("a[href]").evaluateAll((links) => links.map((each) => each.href))) {
        const { origin: of, pathname, search } = new URL(found);
        if (of !== origin || !pathname.startsWith(start) || kinds.has(kind(pathname + search))) continue;
        kinds.add(kind(pathname + search));
        if (pages.length < 80) pages.push(pathname + search);
      }
      const name = path.replace(/^\/console\/?/, "").replace(/[^a-z0-9]+/gi, "-") || "start";
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${screen}-${colorScheme}.png`, fullPage: true });
      seen.looks.push(look);
    }
  }
}
// What people come for. A salesperson on a phone: from the invitation to the first opened lead.
await page.setViewportSize(SCREENS.desk);
await page.goto(`${origin}${start}/people/invite`);
await page.getByLabel("E-mail address").fill("sam@example.com");
await page.getByLabel("sales").check();
await page.getByRole("button", { name: "Make the invitation" }).press("Enter");
const invitation = await page.locator("input.link").inputValue();
const phone = await browser.newContext({ viewport: SCREENS.phone });
const sam = await phone.newPage();
const own = await phone.newCDPSession(sam);
await own.send("WebAuthn.enable");
await own.send("WebAuthn.addVirtualAuthenticator", { options: { ...options, isUserVerified: true } });
const began = Date.now();
await sam.goto(invitation);
await sam.getByRole("button", { name: "Accept the invitation" }).click();
await sam.getByRole("button", { name: "Add a passkey" }).click();
await sam.waitForURL("**/console/account?said=passkey-added");
await sam.goto(`${origin}/console`);
await sam.getByRole("link", { name: "Leads", exact: true }).click();
await sam.locator("td a").first().click();
await sam.getByRole("heading", { name: "Customer" }).waitFor();
seen.acts = { lead: await sam.title(), seconds: (Date.now() - began) / 1000 };

// The owner settles a feed that the checks refuse, erases a customer, and removes the salesperson.
await page.goto(`${origin}${start}/stock/import`);
const feed = { name: "export.csv", mimeType: "text/csv", buffer: Buffer.from("VIN,Stock,Make,Price\n,Z1,Honda,9000\n") };
await page.locator("input[type=file]").setInputFiles(feed);
await page.getByRole("button", { name: "Show what it would change" }).press("Enter");
await page.getByRole("heading", { name: "The checks refuse this file" }).waitFor();
seen.acts.dry = await page.getByText("Nothing is changed yet").textContent();
for (const box of await page.locator("input[name=accept]").all()) await box.check();
await page.getByLabel("Why is the file right?").fill("We sold the others.");
await page.getByRole("button", { name: "Accept, and import it" }).press("Enter");
seen.acts.feed = await page.getByText("The file is imported").textContent();
await page.goto(`${origin}${start}/privacy`);
await page.getByLabel("E-mail address or phone number").fill("robin3@example.com");
await page.getByRole("button", { name: "Find the customer" }).press("Enter");
await page.getByRole("button", { name: "Erase all leads of this customer" }).press("Enter");
await page.getByLabel("I know that this cannot be undone").check();
await page.getByRole("button", { name: "Erase", exact: true }).press("Enter");
seen.acts.erased = await page.getByRole("heading", { level: 1 }).textContent();
await page.goto(`${origin}${start}/people`);
await page.getByRole("link", { name: "sam@example.com" }).press("Enter");
await page.getByRole("button", { name: "Remove sam@example.com" }).press("Enter");
seen.acts.removed = await page.getByRole("status").textContent();
await sam.reload();
seen.acts.sam = new URL(sam.url()).pathname;
await browser.close();
process.stdout.write(JSON.stringify(seen));
