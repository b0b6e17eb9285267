/** How often and how long the client tries again. */

import { Aborted, DealerAgentError, Refused, Unreachable } from "./errors.js";

/** How often and how long the client tries again. */
export interface Retries {
  /** The number of retries after the first attempt. 0 switches them off. */
  readonly max: number;
  /** The first pause in milliseconds, if the response names none. Each further pause is twice as long. */
  readonly firstPauseMs: number;
  /** If `Retry-After` is longer than these milliseconds, the error is thrown at once. */
  readonly longestPauseMs: number;
}

/** What applies unless the caller says otherwise. */
export const DEFAULT_RETRIES: Retries = { max: 2, firstPauseMs: 500, longestPauseMs: 60_000 };

/** What is sent: a request that changes nothing, or a lead, to a dealer that declares idempotency or does not. */
export type Repeatable = "reading" | "lead" | "idempotent lead";

/**
 * The result of an attempt, which is repeated after a pause while its error may be temporary. A lead is repeated only
 * if the dealer surely did not store it, or declares that it stores a lead once for each idempotency key.
 */
export async function repeated<Result>(
  attempt: () => Promise<Result>,
  what: Repeatable,
  retries: Retries,
  signal: AbortSignal | undefined,
): Promise<Result> {
  let mayHaveArrived = false;
  for (let number = 0; ; number += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof DealerAgentError)) {
        throw error;
      }
      // A lead that an earlier attempt sent may be there, whatever the last attempt says.
      mayHaveArrived ||= error.mayHaveArrived;
      error.mayHaveArrived = mayHaveArrived;
      const pause = pauseAfter(error, number, retries);
      if (pause === undefined || (what === "lead" && mayHaveArrived)) {
        throw error;
      }
      await waited(pause, signal, mayHaveArrived);
    }
  }
}

/** The pause before the next attempt in milliseconds, or undefined if there is none. */
function pauseAfter(error: DealerAgentError, number: number, retries: Retries): number | undefined {
  const isTemporary = error instanceof Unreachable || (error instanceof Refused && error.retryable);
  if (!isTemporary || number >= retries.max) {
    return undefined;
  }
  if (error.retryAfterSeconds !== undefined) {
    const asked = error.retryAfterSeconds * 1_000;
    return asked > retries.longestPauseMs ? undefined : asked;
  }
  // Clients that failed together do not come back together.
  return Math.min(retries.firstPauseMs * 2 ** number * (0.5 + Math.random()), retries.longestPauseMs);
}

async function waited(milliseconds: number, signal: AbortSignal | undefined, mayHaveArrived: boolean): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(new Aborted(signal?.reason, mayHaveArrived));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted === true) {
      abort();
    }
  });
}
