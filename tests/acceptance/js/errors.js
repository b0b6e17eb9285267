// What the official JavaScript client shows of each error code. Takes the URLs of agents that answer with an error.
// Prints, as JSON, for each URL and binding the class, the message and the data of the exception. It judges nothing.

import { randomUUID } from "node:crypto";

import { Role } from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const BINDINGS = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };
const part = {
  content: { $case: "data", value: { type: "inventory.search.request" } },
  mediaType: "application/vnd.proto.inventory-search-request+json",
  filename: "",
  metadata: undefined,
};

async function shown(url, binding) {
  const factory = new ClientFactory({
    transports: [new BINDINGS[binding]({})],
    clientConfig: { acceptedOutputModes: ["application/json"] },
    cardResolver: new DefaultAgentCardResolver(),
  });
  const client = await factory.createFromUrl(url);
  const message = { messageId: randomUUID(), role: Role.ROLE_USER, parts: [part], contextId: "", taskId: "" };
  Object.assign(message, { extensions: [], referenceTaskIds: [], metadata: undefined });
  try {
    await client.sendMessage({ tenant: "", message, configuration: undefined, metadata: undefined });
  } catch (error) {
    const { name, reason, metadata, data, statusCode, headers } = error;
    return { name, message: error.message, reason, metadata, data, statusCode, headers };
  }
}

const all = {};
for (const url of process.argv.slice(2)) {
  all[url] = {};
  for (const binding of Object.keys(BINDINGS)) all[url][binding] = await shown(url, binding);
}
console.log(JSON.stringify(all));
