// Looks at pages with a real browser (CHROMIUM) and prints, as JSON, what it saw of the addresses given. With SCREEN it
// looks on that screen only, with scripts.
// It judges nothing: the tests that call it do.

import { launched } from "./browser.js";

const SCREENS = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const STOPS = "a[href], summary, pre[tabindex], select, input, button";

/** In the page: the contrast of every text with what it stands on, lowest first. Of a gradient every colour counts. */
function contrasts() {
  const colours = (css) => (css.match(/rgba?\([^)]*\)/g) ?? []).map((text) => text.match(/[\d.]+/g).map(Number));
  const opaque = ([, , , alpha = 1]) => alpha === 1;
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((part) => part / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const grounds = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor, backgroundImage } = getComputedStyle(at);
      const found = [...colours(backgroundImage), ...colours(backgroundColor)].filter(opaque);
      if (found.length) return found;
    }
    return [[255, 255, 255]];
  };
  window.contrast = (element, css) =>
    Math.min(...grounds(element).map((ground) => Math.min(...colours(css).map((colour) => ratio(colour, ground)))));
  const written = [...document.body.querySelectorAll("*")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()),
  );
  return written
    .map((element) => ({
      text: element.textContent.trim().slice(0, 60),
      link: element.closest("a, summary") !== null,
      ratio: window.contrast(element, getComputedStyle(element).color),
    }))
    .sort((a, b) => a.ratio - b.ratio);
}

/** In the page: the element that has the focus, as its place among the stops, and the ring around it. */
function focused(stops) {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  return {
    stop: [...document.querySelectorAll(stops)].filter((stop) => stop.checkVisibility()).indexOf(element),
    ring: outlineStyle === "none" ? 0 : parseFloat(outlineWidth),
    contrast: window.contrast(element.parentElement, outlineColor),
    seen: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
  };
}

/** Opens every fold, by the keyboard: a page wider than the telephone moves from under a finger. */
async function unfold(page) {
  for (const summary of await page.locator("summary").all()) await summary.press("Enter");
}

/** How far the page goes, and can be pushed, beyond the width of the screen, in pixels. */
async function sideways(page, { width }) {
  return page.evaluate((most) => {
    window.scrollTo(10_000, 0);
    const beyond = Math.max(window.scrollX, document.documentElement.scrollWidth - most);
    window.scrollTo(0, 0);
    return beyond;
  }, width);
}

async function tabbed(page) {
  const stops = await page.evaluate(
    (selector) =>
      [...document.querySelectorAll(selector)]
        .filter((stop) => stop.checkVisibility())
        .map((stop) => stop.textContent.trim().slice(0, 60)),
    STOPS,
  );
  const reached = [];
  for (const _ of stops) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(focused, STOPS));
  }
  return { stops, reached };
}

/** In the page: the numbers that it shows, by the heading above them and their label. */
function counts() {
  const found = {};
  for (const row of document.querySelectorAll(".bars li, .legend li")) {
    let heading = row.closest("details") ?? row.closest("ul");
    while (heading.localName !== "h3") heading = heading.previousElementSibling;
    const number = row.querySelector(".bar-count, b");
    const label = row.textContent.replace(number.textContent, "").trim();
    (found[heading.textContent] ??= {})[label] = Number(number.textContent.replaceAll(",", ""));
  }
  return found;
}

/** One address on one screen. A person who has switched scripts off sees `text` too. */
async function look(browser, address, { screen, colorScheme, javaScriptEnabled = true }) {
  const isMobile = screen === "phone";
  const viewport = SCREENS[screen];
  const options = { viewport, isMobile, colorScheme, javaScriptEnabled, reducedMotion: "reduce" };
  const context = await browser.newContext(options);
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const [troubles, fetched] = [[], []];
  page.on("console", (said) => ["error", "warning"].includes(said.type()) && troubles.push(said.text()));
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("requestfailed", (request) => troubles.push(`failed: ${request.url()}`));
  page.on("response", (response) => response.ok() || troubles.push(`${response.status()}: ${response.url()}`));
  page.on("request", (request) => fetched.push(request.url()));
  await page.goto(address, { waitUntil: "load" });
  const seen = { address, screen, colorScheme, javaScriptEnabled, troubles, fetched };
  if (javaScriptEnabled) {
    seen.texts = await page.evaluate(contrasts);
    Object.assign(seen, screen === "desk" ? await tabbed(page) : {});
  }
  await unfold(page);
  seen.beyond = await sideways(page, viewport);
  seen.text = await page.locator("body").innerText();
  seen.counts = await page.evaluate(counts);
  seen.links = await page.locator("a").evaluateAll((links) => links.map((link) => link.href));
  await context.close();
  return seen;
}

const browser = await launched();
const ways = [
  { screen: "desk", colorScheme: "light" },
  { screen: "desk", colorScheme: "dark" },
  { screen: "phone", colorScheme: "light" },
  { screen: "desk", colorScheme: "light", javaScriptEnabled: false },
];
const { SCREEN } = process.env;
const chosen = ways.filter(({ screen, javaScriptEnabled = true }) => !SCREEN || (screen === SCREEN && javaScriptEnabled));
const looks = [];
for (const address of process.argv.slice(2)) for (const way of chosen) looks.push(await look(browser, address, way));
await browser.close();
console.log(JSON.stringify(looks));
