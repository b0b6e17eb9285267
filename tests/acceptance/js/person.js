// A person at the console, with a real browser, a virtual authenticator, and a keyboard without a mouse.

export const SCREENS = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const MOST_TABS = 400;

/** The requests of all people that the console answered without an error, each as "METHOD path". */
export const answered = new Set();
/** The errors of scripts and policies that the browser reported. */
export const troubles = [];

/** A new window, in which nobody is signed in. */
export async function person(browser, screen = "desk") {
  const context = await browser.newContext({ viewport: SCREENS[screen], locale: "en-US" });
  context.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (response.status() < 400) answered.add(`${response.request().method()} ${path}`);
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => troubles.push(`error: ${error}`));
  page.on("console", (message) => message.type() === "error" && troubles.push(`console: ${message.text()}`));
  const cdp = await context.newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true };
  const added = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: { ...options, isUserVerified: true } });
  const loseKeys = () => cdp.send("WebAuthn.clearCredentials", { authenticatorId: added.authenticatorId });
  return { page, loseKeys, ...keyboard(page) };
}

/** What a person does with the keyboard only. Each of these moves the focus with the Tab key. */
function keyboard(page) {
  const isAt = (element) =>
    element.evaluate((each) => {
      const at = document.activeElement;
      // Only one radio button of a group is a stop. The arrow keys reach the others.
      return each === at || (each.type === "radio" && at.type === "radio" && each.name === at.name);
    });

  async function tabTo(locator) {
    await locator.first().waitFor();
    const element = await locator.first().elementHandle();
    for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
      if (await isAt(element)) return element;
      await page.keyboard.press("Tab");
    }
    throw new Error(`the Tab key does not reach ${locator}`);
  }

  async function enter(locator) {
    await tabTo(locator);
    await page.keyboard.press("Enter");
  }

  /** Presses Enter at an element, and waits for the page to which it leads. */
  async function submit(locator) {
    await tabTo(locator);
    await Promise.all([page.waitForEvent("framenavigated"), page.keyboard.press("Enter")]);
    await page.waitForLoadState();
  }

  /** Presses a key until the element is as wanted. */
  async function until(element, key, isAsWanted) {
    for (let presses = 0; presses < MOST_TABS; presses += 1) {
      if (await element.evaluate(isAsWanted.of, isAsWanted.wanted)) return;
      await page.keyboard.press(key);
    }
    throw new Error(`${key} does not choose ${isAsWanted.wanted}`);
  }

  return {
    enter,
    submit,
    press: (name) => submit(page.getByRole("button", { name })),
    follow: (name) => submit(page.getByRole("link", { name })),
    async type(locator, text) {
      await tabTo(locator);
      await page.keyboard.press("Control+A");
      await page.keyboard.type(text);
    },
    /** Types a day and ten o'clock into a field of a time. `day` is as 2026-03-04. */
    async typeTime(locator, day) {
      const element = await tabTo(locator);
      const [year, month, date] = day.split("-");
      await page.keyboard.type(month + date + year);
      await page.keyboard.press("ArrowRight");
      await page.keyboard.type("1000AM");
      const typed = await element.inputValue();
      if (typed !== `${day}T10:00`) throw new Error(`the keys typed ${typed}`);
    },
    async tick(locator) {
      const element = await tabTo(locator);
      const isChecked = { of: (each) => each.checked };
      const isRadio = (await element.getAttribute("type")) === "radio";
      await until(element, isRadio ? "ArrowDown" : "Space", isChecked);
    },
    async choose(locator, value) {
      await until(await tabTo(locator), "ArrowDown", { of: (each, wanted) => each.value === wanted, wanted: value });
    },
    async pickFile(locator, file) {
      await tabTo(locator);
      const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.keyboard.press("Enter")]);
      await chooser.setFiles(file);
    },
  };
}
