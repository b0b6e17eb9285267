// The real browser of this machine (CHROMIUM), without a window and without calls of its own.

import { chromium } from "playwright-core";

const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
args.push("--disable-component-update", "--disable-sync");

export const launched = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM, headless: true, chromiumSandbox: false, args });
