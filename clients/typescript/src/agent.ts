/** `DealerAgent`: one dealer's agent, and its skills as methods. */

import { extensionsOf, origin, requestUrl, type Binding, type Card, type SkillId } from "./card.js";
import { findCard, keySets, webAddress } from "./discovery.js";
import { DealerAgentError, InvalidRequest, MalformedResponse } from "./errors.js";
import { SHAPES, SKILLS } from "./generated/tables.js";
import type {
  DealerInformation,
  Facets,
  Filters,
  Hold,
  Lead,
  LeadReceipt,
  LeadState,
  Pagination,
  Quote,
  SearchPage,
  Sort,
  StockChanges,
  Timestamp,
  VehicleDetail,
  Vehicle,
} from "./generated/types.js";
import { everyListing, type ListedPage, type Listing, type SkippedListing } from "./paging.js";
import { fittingLead, readReply, requestBody, type SkillReply } from "./replies.js";
import { DEFAULT_RETRIES, repeated, type Repeatable, type Retries } from "./retries.js";
import { isObject, listed, problemsOf } from "./shapes.js";
import { verifyQuote } from "./signatures.js";
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

/** How a quote is asked for. */
export interface QuoteOptions extends CallOptions {
  /** Your own name for the buyer: never an e-mail address or a phone number. */
  readonly buyer_ref?: string | undefined;
}

/** How something is changed once: the same key gets the same result. Without one, a new one is made. */
export interface ChangeOptions extends CallOptions {
  readonly idempotency_key?: string | undefined;
}

/** How a vehicle is held. */
export interface HoldOptions extends ChangeOptions, QuoteOptions {}

/** Proves that a lead is the sender's. An agent that signs or has a token needs no secret. */
export interface SecretOptions extends CallOptions {
  /** The `lead_secret` of the response to the lead. */
  readonly secret?: string | undefined;
}

/** Which visit is changed: needed if the lead has several. */
export interface VisitOptions extends ChangeOptions, SecretOptions {
  readonly appointment_id?: string | undefined;
}

/** From where on, and how many at once. */
export interface ChangesOptions extends CallOptions {
  /** The cursor of an earlier page. Without one, the whole stock begins. */
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
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
 * can mend. A lead is sent again only if the dealer surely did not store it, or declares idempotency. Holds and changes
 * of visits are sent again with the same key.
 *
 * `quote`, `hold`, `leadStatus`, `changes` and the methods like them need the extension for offers
 * (`card.makesOffers`): a dealer without it answers UnsupportedSkill.
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
    return checked("VehicleDetail", (await this.ask("inventory.vehicle", namedVehicle(key), options)).data);
  }

  /**
   * Sends the dealer a customer's request. The customer must have consented to exactly this.
   *
   * Without `idempotency_key`, the lead gets a new one. The response has it, and so has every error. The client sends a
   * lead again by itself only if the dealer surely stored nothing, or declares idempotency. After another failure,
   * `error.mayHaveArrived` is true. Then send the same lead with `error.idempotencyKey`.
   */
  async submitLead(lead: Lead, options: CallOptions = {}): Promise<SubmittedLead> {
    if (lead.offer !== undefined && !this.card.makesOffers) {
      throw new InvalidRequest("This dealer makes no quotes and holds: send the lead without `offer`.");
    }
    return withKey(lead.idempotency_key, async (idempotency_key) => {
      const members = fittingLead({ ...lead, idempotency_key }, this.card);
      const { data, message } = await this.ask("lead.submit", members, options);
      return { ...checked<LeadReceipt>("LeadReceipt", data), message, idempotency_key };
    });
  }

  /**
   * What one vehicle costs in all, line by line, for the buyer's ZIP code. The dealer keeps the price until
   * `valid_until`. The quote is exactly what the dealer has signed: store it as JSON to prove the price later.
   *
   * Throws VehicleNotFound, VehicleUnavailable, and SchemaValidationFailed for a vehicle without a price.
   */
  async quote(key: VehicleKey, { buyer_ref, ...options }: QuoteOptions = {}): Promise<Quote> {
    const { data } = await this.ask("offer.quote", { ...namedVehicle(key), buyer_ref }, options);
    return checked("Quote", data);
  }

  /**
   * Checks that this dealer has signed exactly this quote, also one that was stored. The key set must be on the origin
   * of the card, in a folder above it. It says nothing about whether the quote is still valid.
   *
   * Throws QuoteNotVerified and Unreachable.
   */
  async verifyQuote(quote: Quote, options: CallOptions = {}): Promise<void> {
    const getKeySet = keySets(this.transport, { ...options, retries: this.retries });
    await verifyQuote(quote, new URL(this.card.url), getKeySet);
  }

  /**
   * Keeps the vehicle of a valid quote until `expires_at`. The dealer must know who calls: give `discover` a `signer` or
   * a `token`. After a failure that can pass it is sent again with the same key, so there is one hold. After any other
   * failure, `error.idempotencyKey` is the key.
   *
   * Throws CallerNotKnown, QuoteNotFound, QuoteExpired, VehicleUnavailable, HoldConflict if another agent holds the
   * vehicle, and HoldLimit.
   */
  async hold(quote_id: string, { buyer_ref, idempotency_key, ...options }: HoldOptions = {}): Promise<Hold> {
    return withKey(idempotency_key, async (key) => {
      const members = { quote_id, buyer_ref, idempotency_key: key };
      return checked("Hold", (await this.ask("offer.hold", members, options)).data);
    });
  }

  /** What became of a hold of this agent: see its `status`. Throws HoldNotFound. */
  async holdStatus(hold_id: string, options: CallOptions = {}): Promise<Hold> {
    return checked("Hold", (await this.ask("offer.status", { hold_id }, options)).data);
  }

  /**
   * Ends a hold of this agent. To end it again changes nothing.
   *
   * Throws HoldNotFound, and HoldEnded for a hold that has ended in another way.
   */
  async release(hold_id: string, options: CallOptions = {}): Promise<Hold> {
    return checked("Hold", (await this.ask("offer.release", { hold_id }, options)).data);
  }

  /** What became of a lead that this agent has sent, and of its visit. Throws LeadNotFound, also for a wrong secret. */
  async leadStatus(lead_id: string, { secret, ...options }: SecretOptions = {}): Promise<LeadState> {
    return checked("LeadState", (await this.ask("lead.status", { lead_id, secret }, options)).data);
  }

  /**
   * Gives the visit of a lead another time. The visit gets a new `appointment_id`.
   *
   * Throws AppointmentTimeUnavailable, whose `details` have free `alternatives`, VisitEnded, VisitNotFound, LeadNotFound,
   * and MissingRequiredField if the lead has several visits and `appointment_id` is not given.
   */
  async moveVisit(
    lead_id: string,
    appointment_at: Timestamp,
    options: VisitOptions & { readonly duration_minutes?: number | undefined } = {},
  ): Promise<LeadState> {
    const { duration_minutes, ...others } = options;
    return this.changeVisit("visit.move", { lead_id, appointment_at, duration_minutes }, others);
  }

  /** Cancels the visit of a lead. The dealer's staff see the `reason`. Throws as `moveVisit` does. */
  async cancelVisit(
    lead_id: string,
    options: VisitOptions & { readonly reason?: string | undefined } = {},
  ): Promise<LeadState> {
    const { reason, ...others } = options;
    return this.changeVisit("visit.cancel", { lead_id, reason }, others);
  }

  /**
   * One page of the changes of the stock since a cursor. While it has `more`, ask at once with its `cursor`. Apply a
   * page, then store its cursor.
   *
   * Throws CursorExpired for an old cursor: then begin again without one, and replace your copy.
   */
  async changes({ cursor, limit, ...options }: ChangesOptions = {}): Promise<StockChanges> {
    return checked("StockChanges", (await this.ask("inventory.changes", { cursor, limit }, options)).data);
  }

  private async changeVisit(skill: SkillId, members: object, options: VisitOptions): Promise<LeadState> {
    const { appointment_id, secret, idempotency_key, ...others } = options;
    return withKey(idempotency_key, async (key) => {
      const all = { ...members, appointment_id, secret, idempotency_key: key };
      return checked("LeadState", (await this.ask(skill, all, others)).data);
    });
  }

  private async askOnce(skill: SkillId, members: object, options: CallOptions): Promise<SkillReply> {
    const messageId = crypto.randomUUID();
    const extensions = extensionsOf(this.card, skill);
    const named = extensions.length === 0 ? {} : { "A2A-Extensions": extensions.join(", ") };
    const received = await this.transport.send("POST", requestUrl(this.card), {
      headers: { "Content-Type": "application/json", "A2A-Version": "1.0", ...named },
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

function namedVehicle({ vin, stock, vehicle_id, zip }: VehicleKey): object {
  if (vin === undefined && stock === undefined && vehicle_id === undefined) {
    throw new InvalidRequest("Give a vin, a stock number or a vehicle_id.");
  }
  return { vin, stock, vehicle_id, zip };
}

/** The result of a call with an idempotency key, a new one by default. Each error gets the key. */
async function withKey<Result>(given: string | undefined, call: (key: string) => Promise<Result>): Promise<Result> {
  const key = given ?? crypto.randomUUID();
  try {
    return await call(key);
  } catch (error) {
    if (error instanceof DealerAgentError) {
      error.idempotencyKey = key;
    }
    throw error;
  }
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
      `The response does not have the form of ${type}: ${listed(problems).slice(0, 2_000)}`,
      200,
      JSON.stringify(data),
    );
  }
  return data as Result;
}
