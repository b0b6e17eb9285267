// Signs and verifies with packages of others: one JSON document comes in, and one goes out. The release of web-bot-auth
// knows no members of dictionaries (`;key`). The newer http-message-sig, from the same repository, does.
import { createHash } from "node:crypto";
import { text } from "node:stream/consumers";
import { component, createSignature, verifySignature, webcrypto } from "http-message-sig";
import { directoryResponseHeaders, jwkToKeyID, signatureHeaders } from "web-bot-auth";
import { helpers, signerFromJWK } from "web-bot-auth/crypto";

const { action, url, jwk, body, headers, components, created, lives, directory } = JSON.parse(await text(process.stdin));
const times = { created: new Date(created * 1000), expires: new Date((created + lives) * 1000) };
const digest = `sha-256=:${createHash("sha256").update(body ?? "").digest("base64")}:`;

function plain(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]));
}

async function sign() {
  const all = { ...headers, "content-digest": digest };
  const chosen = components.map(({ name, parameters }) =>
    parameters ? { name, parameters: new Map(Object.entries(parameters)) } : name,
  );
  const signer = await signerFromJWK(jwk);
  const added = await signatureHeaders({ method: "POST", url, headers: all }, signer, { ...times, components: chosen });
  return { ...all, ...plain(added) };
}

async function signDirectory() {
  const request = { method: "GET", url, headers: {} };
  const response = { status: 200, headers };
  const added = await directoryResponseHeaders({ request, response }, [await signerFromJWK(jwk)], times);
  return { ...headers, ...plain(added) };
}

function imported(use) {
  const { d, ...publicHalf } = jwk;
  return crypto.subtle.importKey("jwk", use === "sign" ? { ...publicHalf, d } : publicHalf, "Ed25519", true, [use]);
}

function descriptor(fields) {
  const listed = Object.entries(fields).map(([name, value]) => ({ name, value }));
  return { kind: "request", method: "POST", targetUri: url, fields: listed };
}

async function signMember() {
  const all = { ...headers, "content-digest": digest };
  const keyid = await jwkToKeyID(jwk, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE);
  const added = await createSignature(descriptor(all), {
    label: "sig1",
    components: components.map(({ name, parameters }) => component(name, parameters)),
    parameters: { created, expires: created + lives, keyid, nonce: "a nonce", tag: "web-bot-auth" },
    signer: webcrypto.signer(await imported("sign")),
  });
  return { ...all, signature: added.signature, "signature-input": added.signatureInput };
}

async function check() {
  const found = await verifySignature(descriptor(headers), {
    policy: { algorithms: ["ed25519"], requiredComponents: ["@method"], requiredParameters: ["nonce"], clockSkew: 5 },
    resolveVerifier: async () => webcrypto.verifier(await imported("verify")),
  });
  return { label: found.label };
}

const actions = { sign, signMember, directory: signDirectory, verify: check };
process.stdout.write(JSON.stringify(await actions[action]()));
