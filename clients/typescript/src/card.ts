/** Reads an agent card and chooses how to talk to the agent: binding, vocabulary and version. Pure. */

import { NotADealerAgent } from "./errors.js";
import { OFFERS_EXTENSION, SKILLS } from "./generated/tables.js";
import { isObject, listed, problemsOf, type JsonObject, type Shape } from "./shapes.js";

/** The id of a skill of dealer agents. */
export type SkillId = keyof typeof SKILLS;

/** How requests are sent. */
export type Binding = "JSONRPC" | "HTTP+JSON";

/**
 * JSON-RPC first: every published version has it, and HTTP+JSON only the first one. Its errors also come with status
 * 200, so a proxy does not replace their bodies.
 */
const PREFERRED: readonly Binding[] = ["JSONRPC", "HTTP+JSON"];

const PROFILE_URI = /\/extensions\/(aap|a2a-automotive-retail)\/(?:v([0-9]{1,4})\.([0-9]{1,4}))?/;
const THIS_MACHINE = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** An agent card, and what the client chose from it. */
export interface Card {
  /** Where the card was found. */
  readonly url: string;
  /** The name of the dealer's agent. */
  readonly name: string;
  /** The binding of the chosen interface. */
  readonly binding: Binding;
  /** The URL of the chosen interface. */
  readonly endpoint: string;
  /** The name in the media types: `proto` or `autoagent`. */
  readonly vendor: string;
  /** The URI of the protocol's extension, if the card names it. */
  readonly extension: string | undefined;
  /** The version in the URI of the extension, such as `1.3`. */
  readonly version: string | undefined;
  /** Whether the dealer declares that it stores a lead once for each idempotency key: `params.idempotency` is true. */
  readonly declaresIdempotency: boolean;
  /** Whether the card lists the extension for offers: quotes, holds, changes, and what became of a lead. */
  readonly makesOffers: boolean;
  /** The skills that the agent offers. */
  readonly skills: ReadonlySet<SkillId>;
  /** The card as received, or the part of it that is signed. */
  readonly document: Readonly<JsonObject>;
}

interface Interface {
  url: string;
  protocolBinding: string;
  protocolVersion?: string;
}

interface Extension {
  uri: string;
  params?: JsonObject;
}

interface CardDocument {
  name: string;
  skills: { id: string; inputModes?: string[] }[];
  supportedInterfaces?: Interface[];
  capabilities?: { extensions?: Extension[] };
  defaultInputModes?: string[];
}

const TEXT: Shape = { type: "string" };
const TEXTS: Shape = { type: "array", items: TEXT };
const CARD_SHAPES = {
  Card: {
    type: "object",
    properties: {
      name: TEXT,
      skills: { type: "array", items: { $ref: "Skill" } },
      supportedInterfaces: { type: "array", items: { $ref: "Interface" } },
      capabilities: { type: "object", properties: { extensions: { type: "array", items: { $ref: "Extension" } } } },
      defaultInputModes: TEXTS,
    },
    required: ["name", "skills"],
  },
  Skill: { type: "object", properties: { id: TEXT, inputModes: TEXTS }, required: ["id"] },
  Interface: {
    type: "object",
    properties: { url: TEXT, protocolBinding: TEXT, protocolVersion: TEXT },
    required: ["url", "protocolBinding"],
  },
  Extension: { type: "object", properties: { uri: TEXT, params: { type: "object" } }, required: ["uri"] },
} satisfies Record<string, Shape>;

/**
 * The card in a JSON value that was received from `url`, in camelCase or in snake_case. Throws NotADealerAgent.
 *
 * `binding` is the only one to use, or undefined. Interfaces on one of `origins` are preferred.
 */
export function readCard(
  document: unknown,
  url: URL,
  binding: Binding | undefined,
  origins: ReadonlySet<string>,
): Card {
  const card = checkedCard(document, url);
  const skills = new Set(card.skills.map(({ id }) => id).filter(isSkill));
  if (skills.size === 0) {
    throw new NotADealerAgent(`The agent at ${url} offers no skill of a dealer agent, such as dealer.information.`);
  }
  const [endpoint, chosen] = chooseInterface(card, url, binding, origins);
  const vendor = chooseVendor(card);
  const extension = chooseExtension(card, vendor);
  const [, , major, minor] = PROFILE_URI.exec(extension?.uri ?? "") ?? [];
  return {
    url: url.href,
    name: card.name,
    binding: chosen,
    endpoint: endpoint.href,
    vendor,
    extension: extension?.uri,
    version: major === undefined ? undefined : `${Number(major)}.${Number(minor)}`,
    declaresIdempotency: extension?.params?.["idempotency"] === true,
    makesOffers: (card.capabilities?.extensions ?? []).some(({ uri }) => uri === OFFERS_EXTENSION),
    skills,
    document: document as JsonObject,
  };
}

function isSkill(id: string): id is SkillId {
  return Object.hasOwn(SKILLS, id);
}

function checkedCard(document: unknown, url: URL): CardDocument {
  let card: unknown;
  try {
    card = camelCase(document);
  } catch (error) {
    // A RangeError: the document is nested too deep.
    throw new NotADealerAgent(`${url} is not an agent card.`, { cause: error });
  }
  const problems = problemsOf(card, CARD_SHAPES.Card, CARD_SHAPES);
  if (problems.length > 0) {
    throw new NotADealerAgent(`${url} is not an agent card: ${listed(problems).slice(0, 200)}`);
  }
  return card as CardDocument;
}

/** Whether a lead has the object `source_agent` of versions from 1.1 on, and not the agent's name. */
export function hasSourceAgentObject(card: Card): boolean {
  return PROFILE_URI.exec(card.extension ?? "")?.[1] === "aap";
}

/**
 * The URIs of the extensions that a request names. A lead names the offers too: it can then have an `offer`, and an
 * anonymous sender gets the `lead_secret`.
 */
export function extensionsOf(card: Card, skill: SkillId): string[] {
  const { isLead, isExtension } = SKILLS[skill];
  const offers = card.makesOffers && (isLead || isExtension) ? [OFFERS_EXTENSION] : [];
  return [...(card.extension === undefined ? [] : [card.extension]), ...offers];
}

/** The URL of requests. */
export function requestUrl(card: Card): URL {
  const url = new URL(card.endpoint);
  return card.binding === "JSONRPC" ? url : below(url, "/message:send");
}

/** The media type of a request or of a response. */
export function mediaType(card: Card, skill: SkillId, way: "request" | "response"): string {
  return `application/vnd.${card.vendor}.${SKILLS[skill].stem}-${way}+json`;
}

/** An absolute http or https URL without a user, or undefined for any other text. */
export function parseUrl(text: string, base?: URL): URL | undefined {
  let url: URL;
  try {
    url = new URL(text, base);
  } catch {
    return undefined;
  }
  const isSound = url.username === "" && url.password === "" && url.hostname !== "";
  return isSound && (url.protocol === "https:" || url.protocol === "http:") ? url : undefined;
}

/** The URL of a path below that of a URL. */
export function below(url: URL, path: string): URL {
  const made = new URL(url);
  made.pathname = url.pathname.replace(/\/+$/, "") + path;
  return made;
}

/** Scheme, host and port of a URL. All names of this machine are one host: a card at localhost names 127.0.0.1. */
export function origin(url: URL): string {
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return `${url.protocol}//${THIS_MACHINE.has(url.hostname) ? "localhost" : url.hostname}:${port}`;
}

/** The interface to use: one on the card's own origin before others, then by `PREFERRED`. */
function chooseInterface(
  card: CardDocument,
  here: URL,
  binding: Binding | undefined,
  origins: ReadonlySet<string>,
): [URL, Binding] {
  const interfaces = card.supportedInterfaces ?? [];
  if (interfaces.length === 0) {
    throw new NotADealerAgent(`The card at ${here} has no supportedInterfaces: it is not of A2A 1.0.`);
  }
  const usable: { isForeign: boolean; rank: number; endpoint: URL; binding: Binding }[] = [];
  for (const { url, protocolBinding, protocolVersion = "1.0" } of interfaces) {
    const rank = PREFERRED.findIndex((known) => known === protocolBinding);
    const known = PREFERRED[rank];
    const endpoint = parseUrl(url);
    if (known === undefined || endpoint === undefined || !protocolVersion.startsWith("1")) {
      continue;
    }
    // A card that came over TLS never leads to an unencrypted connection, nor a foreign card to a local service.
    const isSafe = endpoint.protocol === "https:" || origin(endpoint) === origin(here);
    if (isSafe && (binding === undefined || binding === known)) {
      usable.push({ isForeign: !origins.has(origin(endpoint)), rank, endpoint, binding: known });
    }
  }
  usable.sort((one, other) => Number(one.isForeign) - Number(other.isForeign) || one.rank - other.rank);
  const [best] = usable;
  if (best === undefined) {
    const named = interfaces.slice(0, 5).map(({ url }) => url.slice(0, 200));
    throw new NotADealerAgent(
      `The card at ${here} has no usable interface: the client needs ${binding ?? PREFERRED.join(" or ")} of A2A 1.0, ` +
        `with an https URL or a URL on the card's own origin. The card names ${named.join(", ")}.`,
    );
  }
  return [best.endpoint, best.binding];
}

/** The first name in the media types of the requests of known skills. The card's own order is the preference. */
function chooseVendor(card: CardDocument): string {
  for (const { id, inputModes } of card.skills) {
    for (const mode of isSkill(id) ? (inputModes ?? card.defaultInputModes ?? []) : []) {
      const found = /^application\/vnd\.([a-z0-9-]+)\.([a-z-]+)-request\+json$/.exec(mode.trim().toLowerCase());
      if (found?.[1] !== undefined && isSkill(id) && found[2] === SKILLS[id].stem) {
        return found[1];
      }
    }
  }
  return "autoagent";
}

/** The extension of the protocol that belongs to the vocabulary, else the first one. */
function chooseExtension(card: CardDocument, vendor: string): Extension | undefined {
  const extensions = (card.capabilities?.extensions ?? []).filter(
    ({ uri, params }) =>
      uri !== OFFERS_EXTENSION &&
      // Requests name the URI in a header, which other characters would break.
      /^[\x20-\x7e]*$/.test(uri) && (PROFILE_URI.test(uri) || isObject(params?.["skills"])),
  );
  const isFitting = ({ uri }: Extension) => uri.includes("//autoagentprotocol.org/") === (vendor === "autoagent");
  return extensions.find(isFitting) ?? extensions[0];
}

/** A JSON value with camelCase names. */
export function camelCase(node: unknown): unknown {
  if (Array.isArray(node)) {
    return node.map(camelCase);
  }
  if (!isObject(node)) {
    return node;
  }
  return Object.fromEntries(Object.entries(node).map(([name, item]) => [camelCaseName(name), camelCase(item)]));
}

/** A name in camelCase. */
export function camelCaseName(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
