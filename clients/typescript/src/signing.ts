/** Signs requests (RFC 9421, with the profile of Web Bot Auth), so that a dealer knows who calls. With WebCrypto. */

import { parseUrl } from "./card.js";
import { InvalidRequest } from "./errors.js";

const LABEL = "agent";
/** How long a signature is valid. */
const LIFE_SECONDS = 60;
const ED25519 = { name: "Ed25519" };

/**
 * An agent that signs its requests: `DealerAgent.discover(url, { signer })`. Each request to a skill has a signature of
 * its own, with a new nonce, over method, host, path, query and body.
 */
export class Signer {
  private constructor(
    /** Where the agent publishes its key directory: `https://agent.example`. */
    readonly origin: string,
    /** The name of the key in signatures and in the key directory (RFC 7638). */
    readonly thumbprint: string,
    private readonly key: CryptoKey,
  ) {}

  /**
   * The signer with an Ed25519 key: a PEM file's text (PKCS #8, without a password). `origin` is where the agent
   * publishes its key directory. Throws InvalidRequest for another text, or another origin than `https://` with a host.
   */
  static async fromPem(pem: string, origin: string): Promise<Signer> {
    const address = parseUrl(origin);
    if (address?.protocol !== "https:" || address.href !== `${address.origin}/`) {
      throw new InvalidRequest(`${origin} is not the origin of an agent: give one like https://agent.example.`);
    }
    const text = /-----BEGIN PRIVATE KEY-----([\sA-Za-z0-9+/=]+)-----END PRIVATE KEY-----/.exec(pem)?.[1] ?? "";
    try {
      const bytes = Uint8Array.from(atob(text.replace(/\s/g, "")), (character) => character.charCodeAt(0));
      const key = await crypto.subtle.importKey("pkcs8", bytes, ED25519, true, ["sign"]);
      const { x } = await crypto.subtle.exportKey("jwk", key);
      const thumbprint = await sha256(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }));
      return new Signer(address.origin, base64(thumbprint, true), key);
    } catch {
      throw new InvalidRequest("The key is not an Ed25519 key in PEM (PKCS #8, without a password).");
    }
  }

  /** The headers to add to a request. */
  async sign(method: string, url: URL, body: string | undefined): Promise<Record<string, string>> {
    const agent = JSON.stringify(this.origin);
    const covered: [name: string, value: string][] = [
      ['"@method"', method],
      ['"@authority"', url.host],
      ['"@path"', url.pathname],
      ...(url.search === "" ? [] : [['"@query"', url.search] as [string, string]]),
      [`"signature-agent";key="${LABEL}"`, agent],
    ];
    const headers: Record<string, string> = { "Signature-Agent": `${LABEL}=${agent}` };
    if (body !== undefined) {
      headers["Content-Digest"] = `sha-256=:${base64(await sha256(body))}:`;
      covered.push(['"content-digest"', headers["Content-Digest"]]);
    }
    const created = Math.floor(Date.now() / 1_000);
    const nonce = base64(crypto.getRandomValues(new Uint8Array(32)), true);
    const parameters =
      `(${covered.map(([name]) => name).join(" ")});created=${created};expires=${created + LIFE_SECONDS}` +
      `;keyid="${this.thumbprint}";alg="ed25519";nonce="${nonce}";tag="web-bot-auth"`;
    const base = [...covered, ['"@signature-params"', parameters]].map(([name, value]) => `${name}: ${value}`).join("\n");
    const signature = await crypto.subtle.sign(ED25519, this.key, new TextEncoder().encode(base));
    headers["Signature-Input"] = `${LABEL}=${parameters}`;
    headers["Signature"] = `${LABEL}=:${base64(new Uint8Array(signature))}:`;
    return headers;
  }
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

function base64(bytes: Uint8Array, forUrl = false): string {
  const text = btoa(String.fromCharCode(...bytes));
  return forUrl ? text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") : text;
}
