// An operator of an installation uses the console, with the keyboard alone.
// Arguments: the link of an invitation, the path of a dealer's pages, a folder for pictures.
// It prints, as JSON, what it saw, and judges nothing: the tests that call it do.

import { launched } from "./browser.js";
import { looksAt } from "./looking.js";
import { answered, person, troubles } from "./person.js";

const [link, start, pictures] = process.argv.slice(2);
const origin = new URL(link).origin;
const looks = [];
const browser = await launched();
const { page, press, follow } = await person(browser);
const heading = () => page.getByRole("heading", { level: 1 }).textContent();
const look = async (name) => looks.push(...(await looksAt(page, `operator-${name}`, pictures)));

await page.goto(link);
await press("Accept the invitation");
await press("Add a passkey");
await follow("Go to the console");
const said = { first: await heading() };
said.dealers = await page.locator("td[data-label=Id]").allTextContents();
await look("dealers");
await follow("Health of the service");
await press("Check everything now");
said.health = await heading();
await look("health");
said.foreign = (await page.goto(origin + start)).status();
await look("foreign");
await browser.close();
// The status of the foreign dealer is in what the browser reports.
process.stdout.write(JSON.stringify({ said, looks, troubles, answered: [...answered] }));
