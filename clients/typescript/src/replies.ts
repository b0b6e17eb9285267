/**
 * Requests as JSON, and responses as data or errors, for both bindings and every version of the protocol. Pure.
 *
 * The position and the form of an error differ between bindings and versions. All of them are read:
 *
 * - JSON-RPC: `error.data` is the error payload, or an array with it. HTTP+JSON: `error.details` is such an array.
 * - An entry of `details.errors` has `instancePath` and `message`, or `instanceLocation` and `error`.
 */

import { hasSourceAgentObject, mediaType, type Card, type SkillId } from "./card.js";
import { MalformedResponse, Refused, Unreachable, type DealerAgentError, type ReportedProblem } from "./errors.js";
import { CODE_OF_NUMBER, REFUSALS } from "./generated/tables.js";
import type { Lead } from "./generated/types.js";
import { isObject, type JsonObject } from "./shapes.js";
import { retryAfterSeconds, type Received } from "./transport.js";

/** The response of a skill. */
export interface SkillReply {
  /** The data as received. */
  readonly data: JsonObject;
  /** The dealer's sentence for people. */
  readonly message: string | undefined;
}

/** Published versions answer these statuses without a payload. */
const CODE_OF_STATUS: Readonly<Record<number, string>> = { 401: "AUTH_REQUIRED", 429: "RATE_LIMITED" };
const GATEWAY_STATUSES: readonly number[] = [502, 503, 504];

/** The most characters of a message that an error repeats, and of a code, an id or a keyword. */
const LONGEST_MESSAGE = 2_000;
const LONGEST_NAME = 200;
const MOST_PROBLEMS = 1_000;

/** The body of a request. `members` are those of the payload, without `type`. */
export function requestBody(card: Card, skill: SkillId, members: object, messageId: string): string {
  const part = { data: { ...members, type: `${skill}.request` }, mediaType: mediaType(card, skill, "request") };
  const request = {
    message: { messageId, role: "ROLE_USER", parts: [part] },
    configuration: { acceptedOutputModes: [mediaType(card, skill, "response")] },
  };
  const isJsonRpc = card.binding === "JSONRPC";
  return JSON.stringify(
    isJsonRpc ? { jsonrpc: "2.0", id: messageId, method: "SendMessage", params: request } : request,
  );
}

/**
 * A lead in the form of the card's version. From 1.1 on, `source_agent` is an object, and consent has none. In 1.0 and
 * 0.1 both are the agent's name.
 */
export function fittingLead(lead: Lead, card: Card): JsonObject {
  const { source_agent: agent, consent } = lead;
  if (hasSourceAgentObject(card)) {
    const { source_agent: _, ...others } = consent;
    return { ...lead, source_agent: typeof agent === "string" ? { name: agent } : agent, consent: others };
  }
  const name = typeof agent === "string" ? agent : agent.name;
  return { ...lead, source_agent: name, consent: { source_agent: name, ...consent } };
}

/** The data and the message of a response. Throws Refused, Unreachable for a gateway, or MalformedResponse. */
export function readReply(card: Card, skill: SkillId, received: Received, messageId: string): SkillReply {
  let body: unknown;
  try {
    body = JSON.parse(received.body);
  } catch {
    body = undefined;
  }
  const error = isObject(body) ? (body["error"] ?? undefined) : undefined;
  if (received.status !== 200 || error !== undefined) {
    throw refusal(error ?? body, received);
  }
  if (!isObject(body)) {
    throw malformed("is not a JSON object", received);
  }
  if (card.binding === "JSONRPC" && body["id"] !== messageId) {
    throw malformed("answers another call: its id is wrong", received);
  }
  const result = card.binding === "JSONRPC" ? body["result"] : body;
  const message = isObject(result) ? result["message"] : undefined;
  const parts = isObject(message) && Array.isArray(message["parts"]) ? message["parts"] : [];
  const answers = parts
    .map((part: unknown) => (isObject(part) ? part["data"] : undefined))
    .filter((payload) => isObject(payload) && payload["type"] === `${skill}.response`);
  const [answer] = answers;
  if (answers.length !== 1 || !isObject(answer) || !isObject(answer["data"])) {
    throw malformed(`has no ${skill}.response`, received);
  }
  return { data: answer["data"], message: text(answer["message"]) };
}

function malformed(what: string, received: Received): MalformedResponse {
  return new MalformedResponse(`The response of ${received.url} ${what}.`, received.status, received.body);
}

/** The error of a response. `error` is the JSON value of its `error`, or the whole body if it has none. */
function refusal(error: unknown, received: Received): DealerAgentError {
  const nodes = nodesOf(error);
  const payload = nodes.find((node) => typeof node["code"] === "string");
  const info = nodes.find((node) => typeof node["reason"] === "string");
  const number = nodes.map((node) => node["code"]).find((code) => typeof code === "number" && code < 0);
  const jsonRpcCode = typeof number === "number" ? number : undefined;
  const details = isObject(payload?.["details"]) ? payload["details"] : {};
  const seconds = retryAfterSeconds(received.headers) ?? secondsOf(details["retry_after_seconds"]);
  const named = text(payload?.["code"]) ?? text(info?.["reason"]) ?? CODE_OF_NUMBER[jsonRpcCode ?? 0];
  if (named === undefined && GATEWAY_STATUSES.includes(received.status)) {
    return new Unreachable(`A gateway answered ${received.status} for ${received.url}.`, {
      // With Retry-After, 503 refuses a request before it is handled. Otherwise, a gateway may have sent it on.
      mayHaveArrived: received.status !== 503 || seconds === undefined,
      httpStatus: received.status,
      retryAfterSeconds: seconds,
    });
  }
  const code = named ?? CODE_OF_STATUS[received.status] ?? jsonRpcCode?.toString();
  if (code === undefined) {
    return malformed(`has status ${received.status} and no error of the protocol`, received);
  }
  const record = Object.hasOwn(REFUSALS, code) ? REFUSALS[code] : undefined;
  const messages = [payload, ...nodes].map((node) => text(node?.["message"]));
  const metadata = isObject(info?.["metadata"]) ? info["metadata"] : {};
  const retryable = payload?.["retryable"];
  return new (record?.kind ?? Refused)({
    code: code.slice(0, LONGEST_NAME),
    reason: messages.find((message) => message)?.slice(0, LONGEST_MESSAGE) ?? `HTTP status ${received.status}`,
    problems: problemsIn(details, nodes),
    details,
    errorId: (text(payload?.["error_id"]) ?? text(metadata["error_id"]))?.slice(0, LONGEST_NAME),
    retryable: typeof retryable === "boolean" ? retryable : (record?.retryable ?? false),
    retryAfterSeconds: seconds,
    httpStatus: received.status,
    jsonRpcCode,
    advice: record?.advice ?? "",
  });
}

/** The objects of an error that can describe it: the error itself, and those in its `data` and `details`. */
function nodesOf(error: unknown): JsonObject[] {
  return isObject(error) ? [error, ...[error["data"], error["details"]].flat().filter(isObject)] : [];
}

function problemsIn(details: JsonObject, nodes: readonly JsonObject[]): ReportedProblem[] {
  const violations = nodes.map((node) => node["fieldViolations"]).find(Array.isArray);
  const entries: unknown = Array.isArray(details["errors"]) ? details["errors"] : (violations ?? []);
  return (entries as unknown[])
    .slice(0, MOST_PROBLEMS)
    .filter(isObject)
    .map((entry) => ({
      pointer: firstText(entry, "instancePath", "instanceLocation", "field").slice(0, LONGEST_MESSAGE),
      message: firstText(entry, "message", "error", "description").slice(0, LONGEST_MESSAGE),
      keyword: firstText(entry, "keyword").slice(0, LONGEST_NAME),
    }));
}

function firstText(entry: JsonObject, ...names: string[]): string {
  return names.map((name) => text(entry[name])).find((value) => value !== undefined) ?? "";
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function secondsOf(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value < 1e9 ? value : undefined;
}
