/** All pages of a search, although the stock can change between two pages. */

import { SearchIncomplete } from "./errors.js";
import type { Vehicle } from "./generated/types.js";

/** A listing of a page: a vehicle, or the reason why it was skipped. `id` tells it from others. */
export interface Listing {
  readonly id: string;
  readonly vehicle?: Vehicle;
  readonly skipped?: SkippedListing;
}

/** A listing whose members have wrong types. */
export interface SkippedListing {
  /** What is wrong with it. */
  readonly reason: string;
  /** The listing as received. */
  readonly listing: unknown;
}

/** A page with the number of all matching vehicles. */
export interface ListedPage {
  readonly total: number;
  readonly listings: readonly Listing[];
}

/** How often the client reads all pages when the stock changes meanwhile. */
const MOST_PASSES = 3;

/**
 * Every listing of a search once. `getPage` gets the number of vehicles to leave out.
 *
 * Each page repeats the last vehicle of the page before. If it does not, vehicles have moved, and one can be missing.
 * Then all pages are read again, for the vehicles that were not seen. Throws SearchIncomplete after the last vehicle if
 * the vehicles move each time.
 */
export async function* everyListing(
  getPage: (skip: number) => Promise<ListedPage>,
  max: number,
): AsyncGenerator<Listing, void, undefined> {
  const seen = new Set<string>();
  for (let pass = 0; pass < MOST_PASSES; pass += 1) {
    const inPass = new Set<string>();
    let rows = 0;
    let overlap = 0;
    let last: string | undefined;
    for (;;) {
      const { total, listings } = await getPage(rows - overlap);
      if (overlap > 0 && listings[0]?.id !== last) {
        break;
      }
      for (const listing of listings.slice(overlap)) {
        if (!seen.has(listing.id)) {
          if (seen.size === max) {
            throw new SearchIncomplete(`There are more than ${max} vehicles: add filters.`, max);
          }
          seen.add(listing.id);
          yield listing;
        }
      }
      rows += listings.length - overlap;
      if (rows >= total) {
        return;
      }
      if (listings.every(({ id }) => inPass.has(id))) {
        break; // The dealer repeats a page, or has less than it says.
      }
      listings.forEach(({ id }) => inPass.add(id));
      last = listings.at(-1)?.id;
      // A dealer whose pages have one vehicle cannot repeat any.
      overlap = Math.min(1, listings.length - 1);
    }
  }
  throw new SearchIncomplete(
    `The vehicles moved between pages in ${MOST_PASSES} readings. ${seen.size} were found, and some may be missing. ` +
      "Search again.",
    seen.size,
  );
}
