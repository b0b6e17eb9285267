// Looks at the page that a person has open, on each screen and in each colour scheme, and judges nothing.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { SCREENS } from "./person.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds wrong with the page, as "rule: element". */
async function violations(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations: found } = await axe.run(document, { resultTypes: ["violations"] });
    return found.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.target} (${node.failureSummary})`));
  });
}

/** The links, buttons and fields that are shown, and that the Tab key does not reach. */
async function unreached(page) {
  const count = await page.evaluate(() => {
    const stops = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
    const shown = stops.filter((stop) => stop.checkVisibility() && !stop.disabled && stop.tabIndex >= 0);
    shown.forEach((stop, number) => (stop.dataset.stop = number));
    document.activeElement.blur();
    return shown.length;
  });
  const reached = new Set();
  // A field of a time has a stop for each of its parts.
  const parts = await page.locator("input[type=date], input[type=datetime-local]").count();
  for (let number = 0; number < count + 8 * parts + 5; number += 1) {
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

/** Opens what is folded, or folds it again. */
const unfold = (page, isOpen) =>
  page.evaluate((open) => {
    const folds = [...document.querySelectorAll(open ? "details:not([open])" : "details[data-unfolded]")];
    folds.forEach((fold) => (fold.open = open) && (fold.dataset.unfolded = ""));
  }, isOpen);

/** What is seen of the page: one look for each screen and colour scheme. With a folder, there is a picture of each. */
export async function looksAt(page, name, pictures) {
  const looks = [];
  await page.waitForLoadState();
  await page.evaluate(() => document.activeElement.blur());
  await unfold(page, true);
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const look = { name, path: new URL(page.url()).pathname, screen, colorScheme, title: await page.title() };
      look.beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      // The colours are the same on both screens.
      look.violations = screen === "desk" ? await violations(page) : [];
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${screen}-${colorScheme}.png`, fullPage: true });
      looks.push(look);
    }
  }
  await page.setViewportSize(SCREENS.desk);
  looks[0].unreached = await unreached(page);
  await unfold(page, false);
  return looks;
}
