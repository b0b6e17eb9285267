// `verifySignature` accepts only a card that a key of its own address has signed.

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";

import { CardNotVerified, DealerAgent } from "dealer-agent-client";

import { card, dealer, reply } from "./dealer.js";

const { subtle } = globalThis.crypto;
const KEYS = "/.well-known/jwks.json";

const EC = (namedCurve, hash) => [{ name: "ECDSA", namedCurve }, { name: "ECDSA", hash }];
const RSA = (name, more) => [
  { name, hash: "SHA-256", modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
  { name, ...more },
];
const ALGORITHMS = {
  ES256: EC("P-256", "SHA-256"),
  ES384: EC("P-384", "SHA-384"),
  ES512: EC("P-521", "SHA-512"),
  EdDSA: [{ name: "Ed25519" }, { name: "Ed25519" }],
  PS256: RSA("RSA-PSS", { saltLength: 32 }),
  RS256: RSA("RSASSA-PKCS1-v1_5", {}),
};

const base64url = (value) => Buffer.from(value).toString("base64url");

/** What is signed: the members in order. The cards of these tests have no empty values. */
const text = (value) => {
  if (Array.isArray(value)) return `[${value.map(text)}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${text(value[name])}`)}}`;
};

/** The same with every other character than those of ASCII escaped. */
const escapedText = (value) =>
  text(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A signer: its public key, and a function that adds a signature to a card. */
async function signer(alg = "ES256") {
  const [kind, how] = ALGORITHMS[alg];
  const { privateKey, publicKey } = await subtle.generateKey(kind, true, ["sign", "verify"]);
  const key = { ...(await subtle.exportKey("jwk", publicKey)), kid: "key-1" };
  const sign = async (document, header, form = text) => {
    const secured = base64url(JSON.stringify({ alg, kid: "key-1", ...header }));
    const bytes = Buffer.from(`${secured}.${base64url(form(document))}`);
    const signature = { protected: secured, signature: base64url(await subtle.sign(how, privateKey, bytes)) };
    return { ...document, signatures: [signature] };
  };
  return { key, sign };
}

// Members with default values are not signed, and so are not in the card of these tests.
const plain = (url, changes) => {
  const { defaultInputModes, defaultOutputModes, ...document } = card(url, changes);
  return document;
};

/** Discovers a dealer whose card is what `make` returns of its URL and a signer. */
async function discovered(context, { alg, make, keys, path = "/.well-known/agent-card.json", keysPath = KEYS }) {
  const { key, sign } = await signer(alg);
  const { url } = await dealer(context, {
    respond: (request) => reply(request, { total: 0, vehicles: [] }),
    get: {
      [path]: async () => ({ body: await make(url, sign) }),
      [keysPath]: () => keys?.(key) ?? { body: { keys: [key] } },
    },
  });
  return DealerAgent.discover(url + path, { verifySignature: true, retries: { max: 0 } });
}

const good = (url, sign) => sign(plain(url), { jku: url + KEYS });

for (const alg of Object.keys(ALGORITHMS)) {
  test(`a card that is signed with ${alg} is accepted`, async (context) => {
    assert.equal((await discovered(context, { alg, make: good })).card.name, "Test Motors");
  });
}

test("one valid signature is enough, and only what is signed is used", async (context) => {
  const make = async (url, sign) => {
    const signed = await good(url, sign);
    const other = { protected: base64url('{"alg":"none"}'), signature: "" };
    return { ...signed, auth_type: "bearer", signatures: [other, 7, ...signed.signatures] };
  };
  const { document } = (await discovered(context, { make })).card;
  assert(!("auth_type" in document) && !("signatures" in document));
});

test("texts that are not ASCII are signed as they are, or escaped", async (context) => {
  const name = "Zoë’s Autos 🚗";
  for (const form of [text, escapedText]) {
    const make = (url, sign) => sign(plain(url, { name }), { jku: url + KEYS }, form);
    assert.equal((await discovered(context, { make })).card.name, name);
  }
});

test("empty lists that A2A requires may be signed", async (context) => {
  const make = (url, sign) => sign({ ...plain(url), defaultInputModes: [] }, { jku: url + KEYS });
  assert.deepEqual((await discovered(context, { make })).card.document.defaultInputModes, []);
});

test("a card in snake_case is signed in its camelCase form", async (context) => {
  const make = async (url, sign) => {
    const { supportedInterfaces: supported_interfaces, ...others } = await good(url, sign);
    return { ...others, supported_interfaces };
  };
  assert.equal((await discovered(context, { make })).card.binding, "JSONRPC");
});

const REFUSED = {
  "has no signature": { make: (url) => plain(url), said: /is not signed/ },
  "was changed": {
    make: async (url, sign) => ({ ...(await good(url, sign)), name: "Evil Motors" }),
    said: /not what was signed/,
  },
  "names keys of another origin": {
    make: (url, sign) => sign(plain(url), { jku: "https://elsewhere.example/.well-known/jwks.json" }),
    said: /key set \(jku\) is not on the origin/,
  },
  "names keys of another dealer on the same host": {
    make: (url, sign) => sign(plain(url), { jku: `${url}/d/other${KEYS}` }),
    path: "/d/mine/.well-known/agent-card.json",
    keysPath: `/d/other${KEYS}`,
    said: /in a folder above it/,
  },
  "names no keys": { make: (url, sign) => sign(plain(url), {}), said: /key set \(jku\)/ },
  "names another key": {
    make: (url, sign) => sign(plain(url), { jku: url + KEYS, kid: "key-2" }),
    said: /not in the key set/,
  },
  "has keys that are not there": { make: good, keys: () => ({ status: 404, body: "" }), said: /not in the key set/ },
  "has keys that are not JSON": { make: good, keys: () => ({ body: "<html>" }), said: /not in the key set/ },
  "has a key of another kind": {
    make: good,
    keys: ({ kid }) => ({ body: { keys: [{ kid, kty: "oct", k: "c2VjcmV0" }] } }),
    said: /cannot be used/,
  },
  "is signed with a shared secret": {
    make: (url, sign) => sign(plain(url), { jku: url + KEYS, alg: "HS256" }),
    said: /algorithm HS256 is not accepted/,
  },
  "is not signed, by its algorithm": {
    make: (url, sign) => sign(plain(url), { jku: url + KEYS, alg: "none" }),
    said: /algorithm none is not accepted/,
  },
  "has a header with unknown extensions": {
    make: (url, sign) => sign(plain(url), { jku: url + KEYS, crit: ["b64"], b64: false }),
    said: /header cannot be read/,
  },
};

for (const [name, { said, ...served }] of Object.entries(REFUSED)) {
  test(`a card that ${name} is refused`, async (context) => {
    await assert.rejects(discovered(context, served), (error) => {
      assert(error instanceof CardNotVerified, error);
      assert.match(error.message, said);
      return true;
    });
  });
}
