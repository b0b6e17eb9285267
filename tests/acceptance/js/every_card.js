// Sends requests with the official JavaScript client through one card after the other, and verifies the signatures.
// stdin: {"url", "cards": [{"path", "bindings", "headers", "requests": [{"mediaType", "data"}, …]}, …]}.
// stdout: for each card {"bindings", "isSigned", "replies": {BINDING: [the data of a reply, or {"error"}, …]}}. It judges nothing.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

import { AgentCard, SendMessageRequest, verifyAgentCardSignature } from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { createLocalJWKSet } from "jose";

console.debug = () => {};
const FACTORIES = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };
const { url, cards } = JSON.parse(readFileSync(0, "utf8"));
const keys = createLocalJWKSet(await (await fetch(`${url}/.well-known/jwks.json`)).json());

async function isSigned(card) {
  try {
    await verifyAgentCardSignature(async (kid) => keys({ alg: "ES256", kid }))(card);
    return true;
  } catch (error) {
    return error.message;
  }
}

async function asked(card, binding, headers, { mediaType, data }) {
  const fetchImpl = (address, init) => fetch(address, { ...init, headers: { ...init?.headers, ...headers } });
  const factory = new ClientFactory({
    transports: [new FACTORIES[binding]({ fetchImpl })],
    clientConfig: { acceptedOutputModes: ["application/json"] },
  });
  const client = await factory.createFromAgentCard(card);
  const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ mediaType, data }] };
  try {
    const reply = await client.sendMessage(SendMessageRequest.fromJSON({ message }));
    return reply.parts[0].content.value.data;
  } catch (error) {
    return { error: error.message };
  }
}

const told = [];
for (const { path, bindings, headers, requests } of cards) {
  const read = await new DefaultAgentCardResolver().resolve(url, path);
  // The resolver does not convert a card in snake_case.
  const card = read.supportedInterfaces ? read : AgentCard.fromJSON(read);
  const replies = {};
  for (const binding of bindings) {
    replies[binding] = [];
    for (const request of requests) replies[binding].push(await asked(card, binding, headers, request));
  }
  const offered = card.supportedInterfaces.map((each) => each.protocolBinding);
  told.push({ bindings: offered, isSigned: await isSigned(card), replies });
}
console.log(JSON.stringify(told));
