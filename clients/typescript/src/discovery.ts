/** Finds the agent card of a URL. */

import { below, parseUrl, readCard, type Binding, type Card } from "./card.js";
import { NotADealerAgent, Unreachable } from "./errors.js";
import { repeated, type Retries } from "./retries.js";
import { verifiedCard, type GetKeySet } from "./signatures.js";
import { retryAfterSeconds, type CallOptions, type Received, type Transport } from "./transport.js";

const CARD_PATH = "/.well-known/agent-card.json";
/** The most bytes of a card, and of a key set. */
const MOST_CARD_BYTES = 1024 * 1024;
/** The most redirects on the way to a card. */
const MOST_REDIRECTS = 5;

type Get = (url: URL) => Promise<Received>;

/** How documents are fetched. */
export interface Fetching extends CallOptions {
  readonly retries: Retries;
}

/** How a card is found and read. */
export interface Finding extends Fetching {
  readonly binding: Binding | undefined;
  readonly verifySignature: boolean;
}

/** The URL of a dealer or of a card. Throws NotADealerAgent for anything but http and https. */
export function webAddress(url: string | URL): URL {
  const address = parseUrl(String(url));
  if (address === undefined) {
    throw new NotADealerAgent(`${url} is not a URL of a dealer: give one like https://dealer.example.`);
  }
  return address;
}

/** The card below a URL, or at the URL. Throws NotADealerAgent and Unreachable. */
export async function findCard(transport: Transport, address: URL, finding: Finding): Promise<Card> {
  const get = getter(transport, finding);
  let missing = "";
  for (const url of cardUrls(address)) {
    const received = await get(url);
    if (received.status === 200) {
      return await readReceived(transport, received, finding, get);
    }
    missing = `${received.url} answered ${received.status}`;
  }
  throw new NotADealerAgent(`No agent card found at ${address}: ${missing}.`);
}

/** Fetches key sets. */
export function keySets(transport: Transport, options: Fetching): GetKeySet {
  return keySetOf(getter(transport, options));
}

function keySetOf(get: Get): GetKeySet {
  return async (url) => {
    const keys = await get(url);
    return keys.status === 200 && keys.url.href === url.href ? parsed(keys.body) : undefined;
  };
}

function getter(transport: Transport, options: Fetching): Get {
  return (url) => repeated(() => getFollowing(transport, url, options), "reading", options.retries, options.signal);
}

async function readReceived(
  transport: Transport,
  received: Received,
  finding: Finding,
  get: Get,
): Promise<Card> {
  let document = parsed(received.body);
  if (document === undefined) {
    throw new NotADealerAgent(`${received.url} is not an agent card: it is not JSON.`);
  }
  if (finding.verifySignature) {
    document = await verifiedCard(document, received.url, keySetOf(get));
  }
  const card = readCard(document, received.url, finding.binding, transport.origins);
  if (!transport.mayHaveToken(new URL(card.endpoint))) {
    throw new NotADealerAgent(
      `The card at ${card.url} names ${card.endpoint}, which is on another origin. The token is not sent there ` +
        "unless tokenOrigins has it.",
    );
  }
  return card;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** Where the card of a URL can be: at the URL if it is of a file, else at the well-known path below it, or at it. */
function cardUrls(address: URL): URL[] {
  if (address.pathname.replace(/\/+$/, "").endsWith(".json")) {
    return [address];
  }
  const wellKnown = below(address, CARD_PATH);
  wellKnown.search = wellKnown.hash = "";
  return address.pathname === "/" ? [wellKnown] : [wellKnown, address];
}

/** Fetches a URL and follows its redirects. An overloaded server throws Unreachable, which is tried again. */
async function getFollowing(transport: Transport, start: URL, options: CallOptions): Promise<Received> {
  let url = start;
  for (let number = 0; number <= MOST_REDIRECTS; number += 1) {
    const sending = { maxBytes: MOST_CARD_BYTES, headers: { Accept: "application/json" } };
    const received = await transport.send("GET", url, { ...sending, signal: options.signal, timeoutMs: options.timeoutMs });
    if ([429, 502, 503, 504].includes(received.status)) {
      throw new Unreachable(`${url} answered ${received.status}.`, {
        mayHaveArrived: false,
        httpStatus: received.status,
        retryAfterSeconds: retryAfterSeconds(received.headers),
      });
    }
    const location = received.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(received.status) || location === null) {
      return received;
    }
    url = redirected(url, location);
  }
  throw new NotADealerAgent(`${start} redirects more than ${MOST_REDIRECTS} times.`);
}

/** The target of a redirect. Throws NotADealerAgent if it is not a URL, or leaves TLS. */
function redirected(url: URL, location: string): URL {
  const target = parseUrl(location, url);
  if (target === undefined) {
    throw new NotADealerAgent(`${url} redirects to ${location.slice(0, 200)}, which is not a URL of a card.`);
  }
  if (url.protocol === "https:" && target.protocol === "http:") {
    throw new NotADealerAgent(`${url} redirects to ${target}, which is not encrypted.`);
  }
  return target;
}
