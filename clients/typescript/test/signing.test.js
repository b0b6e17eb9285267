// A `signer` signs each request to a skill. tests/acceptance/test_typescript_client.py sends signed requests to a service.

import assert from "node:assert/strict";
import { generateKeyPairSync, createHash, verify } from "node:crypto";
import { test } from "node:test";

import { InvalidRequest, Signer } from "dealer-agent-client";

const ORIGIN = "https://agent.example";
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const PEM = privateKey.export({ type: "pkcs8", format: "pem" });
const signer = await Signer.fromPem(PEM, ORIGIN);

test("a signature covers method, host, path, query and body, and names the key by its thumbprint", async () => {
  const headers = await signer.sign("POST", new URL("https://Dealer.example/message:send?a=1"), "é");
  const digest = createHash("sha256").update("é").digest("base64");
  assert.equal(headers["Content-Digest"], `sha-256=:${digest}:`);
  assert.equal(headers["Signature-Agent"], `agent="${ORIGIN}"`);
  const parameters = headers["Signature-Input"].replace(/^agent=/, "");
  const base = [
    '"@method": POST',
    '"@authority": dealer.example',
    '"@path": /message:send',
    '"@query": ?a=1',
    `"signature-agent";key="agent": "${ORIGIN}"`,
    `"content-digest": sha-256=:${digest}:`,
    `"@signature-params": ${parameters}`,
  ].join("\n");
  const signature = Buffer.from(/^agent=:(.+):$/.exec(headers["Signature"])[1], "base64");
  assert.ok(verify(null, Buffer.from(base), publicKey, signature));
  const { x } = publicKey.export({ format: "jwk" });
  const thumbprint = createHash("sha256").update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest("base64url");
  assert.match(parameters, new RegExp(`;keyid="${thumbprint}";alg="ed25519";nonce="[\\w-]{43}";tag="web-bot-auth"$`));
});

test("each request has a nonce of its own", async () => {
  const sign = () => signer.sign("POST", new URL("https://dealer.example/"), "{}");
  assert.notEqual((await sign())["Signature-Input"], (await sign())["Signature-Input"]);
});

for (const origin of ["http://agent.example", "https://agent.example/path", "https://", "agent.example"]) {
  test(`${origin} is not the origin of an agent`, async () => {
    await assert.rejects(Signer.fromPem(PEM, origin), InvalidRequest);
  });
}

const elliptic = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" });
for (const [name, pem] of [["empty", ""], ["of another curve", elliptic], ["cut", PEM.slice(0, 60)]]) {
  test(`a key that is ${name} is refused`, async () => {
    await assert.rejects(Signer.fromPem(pem, ORIGIN), InvalidRequest);
  });
}
