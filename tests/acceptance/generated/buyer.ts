// A buyer agent on the types that openapi-typescript makes of the service's OpenAPI document, with openapi-fetch.
// It searches, reads the answer, and reads two refusals; what it read is printed as one JSON object.

import createClient from "openapi-fetch";

import type { components, paths } from "./service.js";

declare const process: { env: Record<string, string | undefined> };

type Schemas = components["schemas"];

const client = createClient<paths>({ baseUrl: process.env.OPEN_URL ?? "" });

function search(filters: Schemas["Filters"]): Schemas["SendInventorySearch"] {
  return {
    message: {
      messageId: crypto.randomUUID(),
      role: "ROLE_USER",
      parts: [
        {
          data: {
            type: "inventory.search.request",
            filters,
            pagination: { skip: 0, limit: 2 },
            sort: { field: "year", order: "desc" },
          },
          mediaType: "application/vnd.proto.inventory-search-request+json",
        },
      ],
    },
    configuration: { acceptedOutputModes: ["application/json"] },
  };
}

type Refusal = { error: { code: number; details: (Schemas["ErrorInfo"] | Schemas["ErrorPayload"])[] } };

function told(refusal: Refusal | undefined): [number, Schemas["ErrorCode"], string | undefined] {
  const payload = refusal?.error.details.find((entry) => "error_id" in entry);
  if (refusal === undefined || payload === undefined) throw new Error("no error");
  return [refusal.error.code, payload.code, payload.details.instancePath];
}

const found = await client.POST("/message:send", { body: search({ year_min: 2000 }) });
if (found.data === undefined) throw new Error(JSON.stringify(found.error));
const part = found.data.message.parts[0];
if (part === undefined || part.data.type !== "inventory.search.response") throw new Error("another skill answered");
const vehicles: Schemas["Vehicle"][] = part.data.data.vehicles;

const wrong = await client.POST("/message:send", { body: search({ year_min: 1 }) });

// @ts-expect-error A misspelt filter does not compile.
const misspelt = await client.POST("/message:send", { body: search({ price_maximum: 20000 }) });

const call: Schemas["JsonRpcCall"] = {
  jsonrpc: "2.0",
  id: 7,
  method: "SendMessage",
  params: search({ make: ["Honda"] }),
};
const answer = await client.POST("/rpc", { body: call });
if (answer.data === undefined || !("result" in answer.data)) throw new Error(JSON.stringify(answer));

const card = await client.GET("/cards/1.0.0.json");

console.log(
  JSON.stringify({
    total: part.data.data.total,
    newest: [vehicles[0]?.year, vehicles[0]?.make],
    wrong: told(wrong.error),
    misspelt: told(misspelt.error),
    call: answer.data.id,
    interfaces: card.data?.supportedInterfaces.map((each) => each.protocolBinding),
  }),
);
