// Verifies cards with the official JavaScript SDK. stdin: [{"card", "root", "keys"}, …], where `keys` is the key set of
// the root. stdout: for each, whether a signature of the card is valid.

import { readFileSync } from "node:fs";

import { verifyAgentCardSignature } from "@a2a-js/sdk";
import { createLocalJWKSet } from "jose";

console.debug = () => {};

async function isValid({ card, root, keys }) {
  const known = createLocalJWKSet(keys);
  const verify = verifyAgentCardSignature(async (kid, jku) => {
    if (jku !== `${root}/.well-known/jwks.json`) throw new Error(`unexpected key set ${jku}`);
    return known({ alg: "ES256", kid });
  });
  try {
    await verify(card);
    return true;
  } catch (error) {
    if (error.message !== "No valid signatures found on agent card.") throw error;
    return false;
  }
}

const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await Promise.all(cases.map(isValid))));
