/**
 * Sends requests and reads responses within bounds. A token goes only to the origins that the caller allows. Errors of
 * `fetch` become `Unreachable`.
 */

import { origin } from "./card.js";
import { Aborted, MalformedResponse, Unreachable, type DealerAgentError } from "./errors.js";
import { VERSION } from "./generated/tables.js";
import type { Signer } from "./signing.js";

const USER_AGENT = `dealer-agent-client/${VERSION}`;

/** A longer timer fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One request and its response, for `onExchange`. A token is not in `requestHeaders`. */
export interface HttpExchange {
  readonly method: string;
  readonly url: string;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly request: string;
  /** The HTTP status, or 0 if no response came. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The time until the end of the response. */
  readonly milliseconds: number;
}

/** What a caller can say about one call. */
export interface CallOptions {
  /** Ends the call, also between two retries. The call throws `Aborted`. */
  readonly signal?: AbortSignal | undefined;
  /** The longest time of each request of the call, in milliseconds. By default that of `DealerAgent.discover`. */
  readonly timeoutMs?: number | undefined;
}

/** A response that was read completely. */
export interface Received {
  readonly url: URL;
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** What the transport needs to know. */
export interface TransportOptions {
  readonly fetch: typeof fetch;
  readonly token: string | undefined;
  readonly tokenOrigins: ReadonlySet<string>;
  readonly signer: Signer | undefined;
  readonly userAgent: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly onExchange: ((exchange: HttpExchange) => void) | undefined;
}

/**
 * One request. `maxBytes` bounds the response. `asCaller` proves who calls: it signs the request if there is a signer,
 * and sends the token if the URL may have it.
 */
export interface Sending extends CallOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly maxBytes: number;
  readonly asCaller?: boolean;
}

/** Sends single requests. */
export class Transport {
  constructor(private readonly options: TransportOptions) {}

  /** The origins that may have the token. The interface of a card is preferred on one of them. */
  get origins(): ReadonlySet<string> {
    return this.options.tokenOrigins;
  }

  /** Whether the token may go to this URL. True if there is no token. */
  mayHaveToken(url: URL): boolean {
    return this.options.token === undefined || this.options.tokenOrigins.has(origin(url));
  }

  /** Sends one request, without redirects. Throws Unreachable, Aborted, or MalformedResponse for too many bytes. */
  async send(method: "GET" | "POST", url: URL, sending: Sending): Promise<Received> {
    const { fetch, token, signer, userAgent, onExchange } = this.options;
    const requestHeaders: Record<string, string> = {
      "User-Agent": userAgent === undefined ? USER_AGENT : `${userAgent} ${USER_AGENT}`,
      ...this.options.headers,
      ...sending.headers,
      ...(sending.asCaller === true ? await signer?.sign(method, url, sending.body) : {}),
    };
    const hasToken = sending.asCaller === true && token !== undefined && this.mayHaveToken(url);
    const began = performance.now();
    const deadline = new Deadline(sending.timeoutMs ?? this.options.timeoutMs, sending.signal);
    let exchange = { status: 0, headers: {}, body: "" };
    try {
      const response = await fetch(url, {
        method,
        headers: hasToken ? { ...requestHeaders, Authorization: `Bearer ${token}` } : requestHeaders,
        body: sending.body ?? null,
        redirect: "manual",
        signal: deadline.signal,
      });
      exchange = { status: response.status, headers: Object.fromEntries(response.headers), body: "" };
      const body = await readBody(response, url, sending.maxBytes);
      exchange = { ...exchange, body };
      return { url, status: response.status, headers: response.headers, body };
    } catch (error) {
      throw deadline.translated(error, url);
    } finally {
      deadline.clear();
      const milliseconds = performance.now() - began;
      onExchange?.({ method, url: url.href, requestHeaders, request: sending.body ?? "", ...exchange, milliseconds });
    }
  }
}

/** Ends a request at its timeout, or when the caller's signal says so. */
class Deadline {
  private readonly controller = new AbortController();
  private readonly timer: ReturnType<typeof setTimeout>;
  private isLate = false;
  private readonly abort = () => this.controller.abort();

  constructor(
    milliseconds: number,
    private readonly caller: AbortSignal | undefined,
  ) {
    if (caller?.aborted === true) {
      throw new Aborted(caller.reason, false);
    }
    caller?.addEventListener("abort", this.abort);
    this.timer = setTimeout(() => {
      this.isLate = true;
      this.abort();
    }, Math.min(milliseconds, LONGEST_TIMER_MS));
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  clear(): void {
    clearTimeout(this.timer);
    this.caller?.removeEventListener("abort", this.abort);
  }

  /** The error of a request as one of this package. */
  translated(error: unknown, url: URL): DealerAgentError {
    if (error instanceof MalformedResponse) {
      return error;
    }
    if (this.isLate) {
      return new Unreachable(`${url} sent no response in time.`, { mayHaveArrived: true, cause: error });
    }
    if (this.caller?.aborted === true) {
      return new Aborted(this.caller.reason, true);
    }
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const reason = cause instanceof Error ? (codeOf(cause) ?? cause.message) : String(cause);
    return isBeforeSending(cause)
      ? new Unreachable(`${url} cannot be reached: ${reason}`, { mayHaveArrived: false, cause: error })
      : new Unreachable(`${url} sent no response: ${reason}`, { mayHaveArrived: true, cause: error });
  }
}

/** Reads at most `maxBytes` of a body as text. */
async function readBody(response: Response, url: URL, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  if (response.body === null) {
    return text;
  }
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return text + decoder.decode();
    }
    bytes += value.byteLength;
    if (bytes > maxBytes) {
      await reader.cancel();
      throw new MalformedResponse(`${url} sent more than ${maxBytes} bytes.`, response.status, text);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** Whether the connection failed, so that nothing of the request was sent. Errors of Node.js say it; others may not. */
function isBeforeSending(cause: unknown): boolean {
  if (cause instanceof AggregateError) {
    return cause.errors.length > 0 && cause.errors.every(isBeforeSending);
  }
  const call = cause instanceof Error && "syscall" in cause ? cause.syscall : undefined;
  const code = codeOf(cause) ?? "";
  const isOfCertificate = /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|UNABLE_TO_)/.test(code);
  return call === "connect" || call === "getaddrinfo" || code === "UND_ERR_CONNECT_TIMEOUT" || isOfCertificate;
}

/** The seconds of `Retry-After`, which is a number or a date, or undefined for another text. */
export function retryAfterSeconds(headers: Headers): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^[0-9]{1,9}$/.test(text)) {
    return Number(text);
  }
  const date = /^[A-Za-z]{3},? .* GMT$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1_000);
}
