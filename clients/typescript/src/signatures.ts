/** Verifies the signatures of agent cards and of quotes, with WebCrypto. */

import { camelCaseName, origin, parseUrl } from "./card.js";
import { CardNotVerified, QuoteNotVerified } from "./errors.js";
import { QUOTE_TYPE } from "./generated/tables.js";
import { isObject, type JsonObject } from "./shapes.js";

/** Fetches a key set: the JSON value at a URL. */
export type GetKeySet = (url: URL) => Promise<unknown>;

interface Algorithm {
  readonly key: RsaHashedImportParams | EcKeyImportParams | { readonly name: string };
  readonly signature: RsaPssParams | EcdsaParams | { readonly name: string };
}

/** The accepted algorithms: all are of public keys. */
const ALGORITHMS: Readonly<Record<string, Algorithm>> = {
  ES256: ecdsa("P-256", "SHA-256"),
  ES384: ecdsa("P-384", "SHA-384"),
  ES512: ecdsa("P-521", "SHA-512"),
  EdDSA: { key: { name: "Ed25519" }, signature: { name: "Ed25519" } },
  PS256: { key: { name: "RSA-PSS", hash: "SHA-256" }, signature: { name: "RSA-PSS", saltLength: 32 } },
  RS256: { key: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, signature: { name: "RSASSA-PKCS1-v1_5" } },
};

function ecdsa(namedCurve: string, hash: string): Algorithm {
  return { key: { name: "ECDSA", namedCurve }, signature: { name: "ECDSA", hash } };
}

/** The most signatures of a card that are tried. */
const MOST_SIGNATURES = 10;

/** The lists that A2A requires: they are on a card even if they are empty. */
const ALWAYS_PRESENT = new Set(["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills", "tags"]);
/** Members at the top of a card that no signature covers: the first is not in A2A, the other has the signatures. */
const NOT_SIGNED = new Set(["auth_type", "signatures"]);

/**
 * The part of a card that is signed. One valid signature is enough. Its key must come from a key set on the origin of
 * the card, in a folder above the card. So it shows that the owner of this address made the card, and not who that is.
 *
 * Throws CardNotVerified, and what `getKeySet` throws.
 */
export async function verifiedCard(card: unknown, url: URL, getKeySet: GetKeySet): Promise<JsonObject> {
  const signatures = isObject(card) ? card["signatures"] : undefined;
  if (!isObject(card) || !Array.isArray(signatures) || signatures.length === 0) {
    throw new CardNotVerified(`The card at ${url} is not signed.`);
  }
  const texts = signedTexts(card, url);
  let reason = "";
  for (const signature of signatures.slice(0, MOST_SIGNATURES) as unknown[]) {
    const found = await signedText(signature, texts, url, getKeySet);
    if ("text" in found) {
      return JSON.parse(found.text) as JsonObject;
    }
    reason = found.reason;
  }
  throw new CardNotVerified(`No signature of the card at ${url} is valid: ${reason.slice(0, 200)}`);
}

/**
 * Checks that exactly this quote was signed. The key must come from a key set on the origin of the card at `url`, in a
 * folder above it. It says nothing about whether the quote is still valid.
 *
 * Throws QuoteNotVerified, and what `getKeySet` throws.
 */
export async function verifyQuote(quote: object, url: URL, getKeySet: GetKeySet): Promise<void> {
  const { signature: jws, ...members } = quote as JsonObject;
  const [header = "", payload, value = "", ...others] = typeof jws === "string" ? jws.split(".") : [];
  const { typ, alg } = parsedHeader(header) ?? {};
  const bytes = decoded(value);
  // The last character of Base64 has bits that say nothing: one text only is the signature.
  const isWhole = others.length === 0 && bytes !== undefined && encodedBytes(bytes) === value;
  if (!isWhole || typ !== QUOTE_TYPE || alg !== "ES256") {
    throw new QuoteNotVerified("The quote has no signature of a quote.");
  }
  let text: string;
  try {
    text = canonical(members);
  } catch (error) {
    // A RangeError: the quote is nested too deep.
    throw new QuoteNotVerified("The quote is not one that can be verified.", { cause: error });
  }
  if (payload !== encoded(text)) {
    throw new QuoteNotVerified("The quote is not the one that was signed.");
  }
  const found = await signedText({ protected: header, signature: value }, [text], url, getKeySet);
  if ("reason" in found) {
    throw new QuoteNotVerified(`The signature of the quote is not valid, so do not use it: ${found.reason.slice(0, 200)}`);
  }
}

/** The text that a signature covers, or the reason why it is not valid. */
async function signedText(
  signature: unknown,
  texts: readonly string[],
  url: URL,
  getKeySet: GetKeySet,
): Promise<{ text: string } | { reason: string }> {
  const { protected: encodedHeader, signature: encodedValue } = isObject(signature) ? signature : {};
  if (typeof encodedHeader !== "string" || typeof encodedValue !== "string") {
    return { reason: "it has no protected header or no signature" };
  }
  const header = parsedHeader(encodedHeader);
  const value = decoded(encodedValue);
  const name = header?.["alg"];
  const algorithm = typeof name === "string" && Object.hasOwn(ALGORITHMS, name) ? ALGORITHMS[name] : undefined;
  if (header === undefined || value === undefined || algorithm === undefined || header["crit"] !== undefined) {
    return { reason: `its algorithm ${String(name).slice(0, 50)} is not accepted, or its header cannot be read` };
  }
  const jku = parseUrl(String(header["jku"]));
  if (jku === undefined || !isAbove(jku, url)) {
    return { reason: "its key set (jku) is not on the origin of the card, in a folder above it" };
  }
  const key = await keyOf(await getKeySet(jku), header["kid"], algorithm);
  if (key === undefined) {
    return { reason: "its key is not in the key set, or cannot be used" };
  }
  try {
    for (const text of texts) {
      const input = new TextEncoder().encode(`${encodedHeader}.${encoded(text)}`);
      if (await crypto.subtle.verify(algorithm.signature, key, value, input)) {
        return { text };
      }
    }
  } catch (error) {
    return { reason: String(error) };
  }
  return { reason: "this is not what was signed" };
}

/**
 * Whether a key set belongs to the place of a card. Dealers of one service can share a host: so the folder of the key
 * set, without `.well-known`, must be above the card.
 */
function isAbove(keySet: URL, card: URL): boolean {
  const folder = keySet.pathname.slice(0, keySet.pathname.lastIndexOf("/") + 1).replace(/\.well-known\/$/, "");
  return origin(keySet) === origin(card) && card.pathname.startsWith(folder);
}

async function keyOf(keySet: unknown, kid: unknown, algorithm: Algorithm): Promise<CryptoKey | undefined> {
  const keys = isObject(keySet) && Array.isArray(keySet["keys"]) ? (keySet["keys"] as unknown[]) : [];
  const found = keys.find((key) => isObject(key) && key["kid"] === kid);
  if (!isObject(found)) {
    return undefined;
  }
  // Only what makes the public key: other members, such as `use`, can have values that WebCrypto refuses.
  const { kty, crv, x, y, n, e } = found;
  try {
    return await crypto.subtle.importKey("jwk", { kty, crv, x, y, n, e } as JsonWebKey, algorithm.key, false, [
      "verify",
    ]);
  } catch {
    return undefined;
  }
}

function parsedHeader(encodedHeader: string): JsonObject | undefined {
  try {
    const header: unknown = JSON.parse(new TextDecoder().decode(decoded(encodedHeader)));
    return isObject(header) ? header : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The texts that are signed for a card: JSON by RFC 8785. The card is in camelCase or in snake_case.
 *
 * - The first one is what the official SDKs verify: they drop every empty value.
 * - A2A 1.0, section 8.4.1, keeps empty lists that it requires, and security schemes without scopes.
 * - The Python SDK before 1.2 escapes characters that are not ASCII.
 */
export function signedTexts(card: JsonObject, url: URL): string[] {
  try {
    const kept = Object.fromEntries(Object.entries(card).filter(([name]) => !NOT_SIGNED.has(name)));
    const known = inCamelCase(kept);
    const ofSdks = canonical(withoutEmpty(known));
    const escaped = ofSdks.replace(/[\u007f-\uffff]/g, (unit) => {
      return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    });
    return [ofSdks, canonical(withoutDefaults(known)), escaped];
  } catch (error) {
    // A RangeError: the card is nested too deep.
    throw new CardNotVerified(`${url} is not a card that can be verified.`, { cause: error });
  }
}

/** The JSON text of a value by RFC 8785. */
function canonical(node: unknown): string {
  if (Array.isArray(node)) {
    return `[${node.map(canonical).join()}]`;
  }
  if (!isObject(node)) {
    return JSON.stringify(node);
  }
  const members = Object.entries(node).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${canonical(item)}`).join()}}`;
}

function inCamelCase(node: unknown): unknown {
  return mapped(node, (name, item) => {
    // The only plain boolean of a card: absent means false. `streaming` and its like know three states.
    const isDefault = name === "required" && item === false;
    return isDefault ? undefined : [camelCaseName(name), name === "params" ? item : inCamelCase(item)];
  });
}

function withoutEmpty(node: unknown): unknown {
  if (Array.isArray(node)) {
    return node.map(withoutEmpty).filter((item) => !isEmpty(item));
  }
  return mapped(node, (name, item) => {
    const kept = withoutEmpty(item);
    return isEmpty(kept) ? undefined : [name, kept];
  });
}

function withoutDefaults(node: unknown): unknown {
  return mapped(node, (name, item) => {
    if (Array.isArray(item) && item.length === 0 && !ALWAYS_PRESENT.has(name)) {
      return undefined;
    }
    return [name, name === "params" ? item : withoutDefaults(item)];
  });
}

/** A value whose objects have other members. Undefined leaves a member out. */
function mapped(node: unknown, change: (name: string, item: unknown) => [string, unknown] | undefined): unknown {
  if (Array.isArray(node)) {
    return node.map((item) => mapped(item, change));
  }
  if (!isObject(node)) {
    return node;
  }
  const members = Object.entries(node).map(([name, item]) => change(name, item));
  return Object.fromEntries(members.filter((member) => member !== undefined));
}

function isEmpty(value: unknown): boolean {
  return value === "" || value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

function encoded(text: string): string {
  return encodedBytes(new TextEncoder().encode(text));
}

function encodedBytes(bytes: Uint8Array): string {
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function decoded(base64url: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
