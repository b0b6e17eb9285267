/**
 * A client of dealer agents: it finds a dealer's agent, searches its vehicles, holds them, and sends it leads.
 *
 *     const agent = await DealerAgent.discover("https://dealer.example");
 *     const page = await agent.search({ make: ["Honda"], price_max: 30000 });
 */

export {
  DealerAgent,
  type ChangesOptions,
  type DiscoverOptions,
  type HoldOptions,
  type SearchAllOptions,
  type SearchOptions,
  type QuoteOptions,
  type SecretOptions,
  type SortOrder,
  type SubmittedLead,
  type VehicleKey,
  type VehiclePage,
  type VehicleStream,
  type VisitOptions,
} from "./agent.js";
export type { Binding, Card, SkillId } from "./card.js";
export {
  Aborted,
  CardNotVerified,
  DealerAgentError,
  InvalidRequest,
  MalformedResponse,
  NotADealerAgent,
  QuoteNotVerified,
  Refused,
  SearchIncomplete,
  Unreachable,
  type Refusal,
  type ReportedProblem,
} from "./errors.js";
export * from "./generated/refusals.js";
export type * from "./generated/types.js";
export type { SkippedListing } from "./paging.js";
export type { SkillReply } from "./replies.js";
export type { Retries } from "./retries.js";
export type { JsonObject } from "./shapes.js";
export { Signer } from "./signing.js";
export type { CallOptions, HttpExchange } from "./transport.js";
