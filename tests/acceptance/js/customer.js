// Moves a visit, cancels it and withdraws consent with a real browser (CHROMIUM) that has a telephone's width and no
// scripts, by the keyboard alone. Takes the addresses of both pages; prints, as JSON, what each page showed.

import { launched } from "./browser.js";

const [visit, contact] = process.argv.slice(2);
const browser = await launched();
const viewport = { width: 390, height: 844 };
const context = await browser.newContext({ viewport, isMobile: true, javaScriptEnabled: false });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const asked = [];
page.on("request", (request) => asked.push([request.method(), request.url(), request.headers().referer ?? null]));

const shown = async () => ({
  address: page.url(),
  text: await page.locator("main").innerText(),
  beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
});

/** Presses Tab until the element has the focus. */
async function tabTo(selector) {
  for (let times = 0; times < 30; times += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  throw new Error(`the Tab key does not reach ${selector}`);
}

/** Presses a key that sends a form, and waits for the page that answers. */
async function send(key) {
  await Promise.all([page.waitForEvent("load"), page.keyboard.press(key)]);
}

const pages = {};
await page.goto(visit);
pages.visit = await shown();
await tabTo("select");
await page.keyboard.press("ArrowDown");
await page.keyboard.press("ArrowDown");
pages.chosen = await page.locator("select option:checked").innerText();
await tabTo("button");
await send("Enter");
pages.moved = await shown();
await tabTo("summary");
await page.keyboard.press("Enter");
await tabTo("button[value=cancel]");
await send("Space");
pages.cancelled = await shown();
await page.goto(contact);
pages.contact = await shown();
await tabTo("input[value=email]");
await page.keyboard.press("Space");
await tabTo("button");
await send("Enter");
pages.withdrawn = await shown();
await browser.close();
console.log(JSON.stringify({ pages, asked }));
