/**
 * Every error of this package:
 *
 *     DealerAgentError
 *     ├── InvalidRequest       nothing was sent: the arguments are wrong
 *     ├── Unreachable          no response came, or only one of a gateway
 *     ├── Aborted              the caller's AbortSignal ended the request
 *     ├── NotADealerAgent      no usable agent card at the URL
 *     │   └── CardNotVerified  the signature of the card is missing or wrong
 *     ├── MalformedResponse    a response that breaks the protocol
 *     ├── SearchIncomplete     `searchAll` cannot show that it saw all vehicles
 *     └── Refused              the dealer's agent answered with an error
 *         └── VehicleNotFound, RateLimited, ...: one class for each error code
 */

/** One thing that is wrong with a request. */
export interface ReportedProblem {
  /** A JSON pointer. It is empty for the whole request. */
  readonly pointer: string;
  readonly message: string;
  /** The keyword of JSON Schema that failed, or an empty text. */
  readonly keyword: string;
}

/** The root of all errors of this package. */
export abstract class DealerAgentError extends Error {
  /** The key of the lead that was sent. To send the lead again, use the same key. */
  idempotencyKey: string | undefined;
  /** False if the dealer surely did not store the lead that was sent. */
  mayHaveArrived = false;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The arguments are wrong. Nothing was sent. */
export class InvalidRequest extends DealerAgentError {
  constructor(
    message: string,
    readonly problems: readonly ReportedProblem[] = [],
  ) {
    super(message);
  }
}

/** No response came: no connection, a broken connection, a timeout, or a gateway that answered 502, 503 or 504. */
export class Unreachable extends DealerAgentError {
  /** The status of the gateway. */
  readonly httpStatus: number | undefined;
  /** How long to wait, if the response says it. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    message: string,
    options: ErrorOptions & { mayHaveArrived: boolean; httpStatus?: number; retryAfterSeconds?: number | undefined },
  ) {
    super(message, options);
    this.mayHaveArrived = options.mayHaveArrived;
    this.httpStatus = options.httpStatus;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The caller's `AbortSignal` ended the request. Its reason is the `cause`. */
export class Aborted extends DealerAgentError {
  override readonly name = "AbortError";

  constructor(reason: unknown, mayHaveArrived: boolean) {
    super("The request was aborted.", { cause: reason });
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** The URL has no agent card of a dealer agent, or the card cannot be used. */
export class NotADealerAgent extends DealerAgentError {}

/** The agent card has no valid signature. */
export class CardNotVerified extends NotADealerAgent {}

/** A quote has no valid signature of the dealer. */
export class QuoteNotVerified extends DealerAgentError {}

/** The response breaks the protocol or a bound of the client. */
export class MalformedResponse extends DealerAgentError {
  override mayHaveArrived = true;
  /** The beginning of the response. */
  readonly body: string;

  constructor(
    message: string,
    readonly httpStatus: number,
    body = "",
  ) {
    super(message);
    this.body = body.slice(0, 2_000);
  }
}

/** `searchAll` returned what it saw, but vehicles may be missing. */
export class SearchIncomplete extends DealerAgentError {
  constructor(
    message: string,
    /** The number of vehicles that were returned. */
    readonly seen: number,
  ) {
    super(message);
  }
}

/** The dealer's agent answered with an error. A code that this version does not know is a plain `Refused`. */
export class Refused extends DealerAgentError {
  /** The error code, as received. */
  readonly code: string;
  /** The sentence of the dealer's agent for people. `message` is the code and this sentence. */
  readonly reason: string;
  /** Everything that is wrong with the request. */
  readonly problems: readonly ReportedProblem[];
  /** The `details` of the response. */
  readonly details: Readonly<Record<string, unknown>>;
  /** Identifies the error for the dealer. */
  readonly errorId: string | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** How long to wait, if the response says it. */
  readonly retryAfterSeconds: number | undefined;
  /** The HTTP status. JSON-RPC answers most errors with 200. */
  readonly httpStatus: number;
  /** The number of the JSON-RPC error. */
  readonly jsonRpcCode: number | undefined;
  /** What to do next, for a known code. */
  readonly advice: string;

  constructor(refusal: Refusal) {
    super(`${refusal.code}: ${refusal.reason}`);
    this.code = refusal.code;
    this.reason = refusal.reason;
    this.problems = refusal.problems;
    this.details = refusal.details;
    this.errorId = refusal.errorId;
    this.retryable = refusal.retryable;
    this.retryAfterSeconds = refusal.retryAfterSeconds;
    this.httpStatus = refusal.httpStatus;
    this.jsonRpcCode = refusal.jsonRpcCode;
    this.advice = refusal.advice;
    // The dealer stores a lead whose visit has no free time. An internal error can come before or after the storing, and
    // so can an unknown error that is temporary.
    const isUnclear = refusal.code === "INTERNAL_ERROR" || (new.target === Refused && refusal.retryable);
    this.mayHaveArrived = isUnclear || Object.hasOwn(refusal.details, "lead_id");
  }
}

/** What a response says about a refusal. */
export type Refusal = Pick<
  Refused,
  | "code"
  | "reason"
  | "problems"
  | "details"
  | "errorId"
  | "retryable"
  | "retryAfterSeconds"
  | "httpStatus"
  | "jsonRpcCode"
  | "advice"
>;

/** What is known of an error code. */
export interface RefusalRecord {
  readonly kind: new (refusal: Refusal) => Refused;
  readonly retryable: boolean;
  readonly advice: string;
}
