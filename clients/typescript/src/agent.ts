/** `DealerAgent`: one dealer's agent, and its five skills as methods. */

import { origin, requestUrl, type Binding, type Card, type SkillId } from "./card.js";
import { findCard, webAddress } from "./discovery.js";
import { DealerAgentError, InvalidRequest, MalformedResponse } from "./errors.js";
import { SHAPES, SKILLS } from "./generated/tables.js";
import type {
  DealerInformation,
  Facets,
  Filters,
  Lead,
  LeadReceipt,
  Pagination,
  SearchPage,
  Sort,
  VehicleDetail,
  Vehicle,
} from "./generated/types.js";
import { everyListing, type ListedPage, type Listing, type SkippedListing } from "./paging.js";
import { fittingLead, readReply, requestBody, type SkillReply } from "./replies.js";
import { DEFAULT_RETRIES, repeated, type Repeatable, type Retries } from "./retries.js";
import { isObject, listed, problemsOf } from "./shapes.js";
import type { Signer } from "./signing.js";
import { Transport, type CallOptions, type HttpExchange } from "./transport.js";

const TIMEOUT_MS = 30_000;
const MOST_REPLY_BYTES = 16 * 1024 * 1024;
/** The size of a page that `searchAll` asks for. A dealer can send less. */
const LONGEST_PAGE = 100;
/** The most vehicles that `searchAll` returns. */
const MOST_VEHICLES = 100_000;

/** What a caller can say about a dealer. */
export interface DiscoverOptions extends CallOptions {
  /** The bearer token that the dealer gave you. It goes to the origin of the URL, and to `tokenOrigins`. */
  readonly token?: string | undefined;
  /** Further origins that may get the token, such as `https://api.dealer.example`. */
  readonly tokenOrigins?: readonly string[];
  /** Signs each request to a skill, so that the dealer knows who calls. */
  readonly signer?: Signer | undefined;
  /** By default JSON-RPC if the card has it, else HTTP+JSON. */
  readonly binding?: Binding | undefined;
  /** Refuses a card without a valid signature by a key on its own origin, and uses only what is signed. */
  readonly verifySignature?: boolean;
  /** The name of your program, for the dealer's log. */
  readonly userAgent?: string | undefined;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How often and how long the client tries again. `{ max: 0 }` switches it off. */
  readonly retries?: Partial<Retries>;
  /** Is called after each request, with what was sent and received. */
  readonly onExchange?: (exchange: HttpExchange) => void;
  /** Replaces `fetch`, for example to use a proxy. */
  readonly fetch?: typeof fetch;
}

/** A field to sort by, with a minus for descending order. */
export type SortOrder = Sort["field"] | `-${Sort["field"]}` | Sort;

/** The order of a search, and which page of it. */
export interface SearchOptions extends CallOptions, Pagination {
  readonly sort?: SortOrder | undefined;
}

/** The order of a search over all pages. */
export interface SearchAllOptions extends CallOptions {
  readonly sort?: SortOrder | undefined;
  /** The size of a page, by default 100. The dealer may send less. */
  readonly pageSize?: number | undefined;
  /** The most vehicles to return, by default 100,000. Above, `SearchIncomplete` is thrown. */
  readonly max?: number | undefined;
}

/** One page of a search. */
export interface VehiclePage extends SearchPage {
  /** Listings whose members have wrong types. They are not in `vehicles`. */
  readonly skipped: readonly SkippedListing[];
}

/** All vehicles of a search, for `for await`. */
export interface VehicleStream extends AsyncIterable<Vehicle> {
  /** Listings with wrong types that were met so far. */
  readonly skipped: readonly SkippedListing[];
}

/** Which vehicle: a VIN, a stock number or an id. A listing of a search is one. */
export interface VehicleKey {
  readonly vin?: string | undefined;
  readonly stock?: string | undefined;
  readonly vehicle_id?: string | undefined;
  /** The ZIP code of the buyer, for the offer there. Versions of the public protocol after 1.0 refuse it. */
  readonly zip?: string | undefined;
}

/** What became of a lead. */
export interface SubmittedLead extends LeadReceipt {
  /** The dealer's sentence for the customer. */
  readonly message: string | undefined;
  /** The key under which the lead was sent. */
  readonly idempotency_key: string;
}

/**
 * A dealer's agent. Make it with `DealerAgent.discover`.
 *
 * Every method throws a `DealerAgentError`. Requests of the reading skills are sent again after a failure that a retry
 * can mend. A lead is sent again only if the dealer surely did not store it, or declares idempotency.
 *
 * Results have the types of the published schemas. Members that the types do not know are kept.
 */
export class DealerAgent {
  private constructor(
    /** The dealer's card, and what the client chose from it. */
    readonly card: Card,
    private readonly transport: Transport,
    private readonly retries: Retries,
  ) {}

  /**
   * Reads the agent card and chooses binding, vocabulary and version. `url` is that of the dealer, or that of a card.
   *
   * Throws Unreachable, NotADealerAgent (CardNotVerified), or MalformedResponse for a response that is too large.
   */
  static async discover(url: string | URL, options: DiscoverOptions = {}): Promise<DealerAgent> {
    if (Object.keys(options.headers ?? {}).some((name) => name.toLowerCase() === "authorization")) {
      throw new InvalidRequest("headers are sent to every origin: give the bearer token as token.");
    }
    const address = webAddress(url);
    const transport = new Transport({
      fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
      token: options.token,
      tokenOrigins: new Set([address, ...(options.tokenOrigins ?? []).map(webAddress)].map(origin)),
      signer: options.signer,
      userAgent: options.userAgent,
      headers: options.headers ?? {},
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      onExchange: options.onExchange,
    });
    const retries = { ...DEFAULT_RETRIES, ...options.retries };
    const { binding, signal, timeoutMs, verifySignature = false } = options;
    const card = await findCard(transport, address, { binding, signal, timeoutMs, verifySignature, retries });
    return new DealerAgent(card, transport, retries);
  }

  /**
   * One request with the members of a payload, without `type`. The data of the response is as received. The other
   * methods are made of this one. It sends what it gets: the dealer checks it.
   */
  async ask(skill: SkillId, members: object = {}, options: CallOptions = {}): Promise<SkillReply> {
    const lead = this.card.declaresIdempotency && "idempotency_key" in members ? "idempotent lead" : "lead";
    const what: Repeatable = SKILLS[skill].isLead ? lead : "reading";
    return repeated(() => this.askOnce(skill, members, options), what, this.retries, options.signal);
  }

  /** Who the dealer is: rooftops, addresses, hours, phone numbers, fees. */
  async information(options: CallOptions = {}): Promise<DealerInformation> {
    return checked("DealerInformation", (await this.ask("dealer.information", {}, options)).data);
  }

  /** Which values occur in the matching stock, and how often. */
  async facets(filters: Filters = {}, options: CallOptions = {}): Promise<Facets> {
    checkRequest({ filters });
    return checked("Facets", (await this.ask("inventory.facets", { filters }, options)).data);
  }

  /**
   * One page of the matching vehicles, and the number of all (`total`).
   *
   *     await agent.search({ make: ["Honda", "Toyota"], price_max: 30000 }, { sort: "price", limit: 10 })
   *
   * All filters must match. A filter with a list matches if one entry does. Throws InvalidRequest for an unknown filter
   * or a wrong value, before anything is sent.
   */
  async search(filters: Filters = {}, options: SearchOptions = {}): Promise<VehiclePage> {
    const [page, { listings }] = await this.searchPage(filters, options);
    const vehicles = listings.flatMap(({ vehicle }) => vehicle ?? []);
    return { ...page, vehicles, skipped: listings.flatMap(({ skipped }) => skipped ?? []) };
  }

  /**
   * All matching vehicles, page after page. No vehicle comes twice.
   *
   *     for await (const vehicle of agent.searchAll({ make: ["Honda"] })) ...
   *
   * If the stock changes meanwhile, the search is repeated for the vehicles that were missed. Throws SearchIncomplete at
   * the end if vehicles may still be missing, or if there are more than `max`.
   */
  searchAll(filters: Filters = {}, options: SearchAllOptions = {}): VehicleStream {
    const { pageSize: limit = LONGEST_PAGE, max = MOST_VEHICLES, ...others } = options;
    searchMembers(filters, { ...others, limit });
    const getPage = async (skip: number) => (await this.searchPage(filters, { ...others, skip, limit }))[1];
    const skippedListings: SkippedListing[] = [];
    async function* vehicles(): AsyncGenerator<Vehicle, void, undefined> {
      for await (const { vehicle, skipped } of everyListing(getPage, max)) {
        if (vehicle !== undefined) {
          yield vehicle;
        } else if (skipped !== undefined) {
          skippedListings.push(skipped);
        }
      }
    }
    return { skipped: skippedListings, [Symbol.asyncIterator]: vehicles };
  }

  /**
   * One vehicle, by VIN, stock number or id. `key` can be a listing of a search.
   *
   * Throws VehicleNotFound, and VehicleUnavailable for a vehicle that was sold.
   */
  async vehicle(key: VehicleKey, options: CallOptions = {}): Promise<VehicleDetail> {
    const { vin, stock, vehicle_id, zip } = key;
    if (vin === undefined && stock === undefined && vehicle_id === undefined) {
      throw new InvalidRequest("Give a vin, a stock number or a vehicle_id.");
    }
    return checked("VehicleDetail", (await this.ask("inventory.vehicle", { vin, stock, vehicle_id, zip }, options)).data);
  }

  /**
   * Sends the dealer a customer's request. The customer must have consented to exactly this.
   *
   * Without `idempotency_key`, the lead gets a new one. The response has it, and so has every error. The client sends a
   * lead again by itself only if the dealer surely stored nothing, or declares idempotency. After another failure,
   * `error.mayHaveArrived` is true. Then send the same lead with `error.idempotencyKey`.
   */
  async submitLead(lead: Lead, options: CallOptions = {}): Promise<SubmittedLead> {
    const idempotency_key = lead.idempotency_key ?? crypto.randomUUID();
    try {
      const members = fittingLead({ ...lead, idempotency_key }, this.card);
      const { data, message } = await this.ask("lead.submit", members, options);
      return { ...checked<LeadReceipt>("LeadReceipt", data), message, idempotency_key };
    } catch (error) {
      if (error instanceof DealerAgentError) {
        error.idempotencyKey = idempotency_key;
      }
      throw error;
    }
  }

  private async askOnce(skill: SkillId, members: object, options: CallOptions): Promise<SkillReply> {
    const messageId = crypto.randomUUID();
    const extension = this.card.extension === undefined ? {} : { "A2A-Extensions": this.card.extension };
    const received = await this.transport.send("POST", requestUrl(this.card), {
      headers: { "Content-Type": "application/json", "A2A-Version": "1.0", ...extension },
      body: requestBody(this.card, skill, members, messageId),
      maxBytes: MOST_REPLY_BYTES,
      asCaller: true,
      signal: options.signal,
      timeoutMs: options.timeoutMs,
    });
    return readReply(this.card, skill, received, messageId);
  }

  private async searchPage(filters: Filters, options: SearchOptions): Promise<[SearchPage, ListedPage]> {
    const { data } = await this.ask("inventory.search", searchMembers(filters, options), options);
    const received = Array.isArray(data["vehicles"]) ? (data["vehicles"] as unknown[]) : [];
    const listings = received.map(readListing);
    const page = checked<SearchPage>("SearchPage", Array.isArray(data["vehicles"]) ? { ...data, vehicles: [] } : data);
    return [page, { total: page.total, listings }];
  }
}

/** A listing of a page. One with members of wrong types is skipped. */
function readListing(listing: unknown): Listing {
  const problems = problemsOf(listing, SHAPES["Vehicle"] ?? {}, SHAPES);
  const named = isObject(listing) ? (listing["vehicle_id"] ?? listing["vin"] ?? listing["stock"]) : undefined;
  const id = typeof named === "string" && named !== "" ? named : JSON.stringify(listing);
  return problems.length === 0
    ? { id, vehicle: listing as Vehicle }
    : { id, skipped: { reason: listed(problems), listing } };
}

function searchMembers(filters: Filters, { sort, skip, limit }: SearchOptions): object {
  const isDescending = typeof sort === "string" && sort.startsWith("-");
  const named = { field: isDescending ? sort.slice(1) : sort, order: isDescending ? "desc" : "asc" };
  const members = {
    filters,
    ...(skip !== undefined || limit !== undefined ? { pagination: { skip, limit } } : {}),
    ...(sort !== undefined ? { sort: typeof sort === "string" ? named : sort } : {}),
  };
  checkRequest(members);
  return members;
}

/** Throws InvalidRequest if a request is not as its types say, for callers without types. */
function checkRequest(members: object): void {
  const problems = problemsOf(members, SHAPES["SearchRequest"] ?? {}, SHAPES);
  if (problems.length > 0) {
    throw new InvalidRequest(`The request is wrong: ${listed(problems)}`, problems);
  }
}

/** The data of a response as a type of the published schemas. Throws MalformedResponse. */
function checked<Result>(type: string, data: unknown): Result {
  const problems = problemsOf(data, SHAPES[type] ?? {}, SHAPES);
  if (problems.length > 0) {
    throw new MalformedResponse(
      `The response has another form than ${type}: ${listed(problems).slice(0, 2_000)}`,
      200,
      JSON.stringify(data),
    );
  }
  return data as Result;
}
