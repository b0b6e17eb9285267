// What the types refuse and accept. `tsc --project test` fails if one of the mistakes is accepted.

import {
  DealerAgent,
  RateLimited,
  Refused,
  VehicleNotFound,
  type Customer,
  type Filters,
  type Lead,
  type Vehicle,
} from "dealer-agent-client";

declare const agent: DealerAgent;
declare const vehicle: Vehicle;
declare const lead: Lead;
declare const error: unknown;

export async function mistakes(): Promise<void> {
  // @ts-expect-error a misspelled filter
  await agent.search({ prcie_min: 1 });
  // @ts-expect-error a filter with the wrong type
  await agent.search({ make: "Honda" });
  // @ts-expect-error a text for a number
  await agent.search({ price_max: "30000" });
  // @ts-expect-error an unknown word
  await agent.search({ condition: ["old"] });
  // @ts-expect-error null is not the absence of a filter
  await agent.search({ query: null });
  // @ts-expect-error an option in the place of a filter
  await agent.search({ limit: 5 });
  // @ts-expect-error an unknown field to sort by
  await agent.search({}, { sort: "colour" });
  // @ts-expect-error an order without a direction
  await agent.search({}, { sort: { field: "price" } });
  // @ts-expect-error a misspelled option
  await agent.search({}, { timeout: 5 });
  // @ts-expect-error facets have no pages
  await agent.facets({}, { limit: 5 });
  // @ts-expect-error a VIN is not the whole argument
  await agent.vehicle("1HGCM82633A004352");
  // @ts-expect-error a misspelled key
  await agent.vehicle({ vni: "1HGCM82633A004352" });
  // @ts-expect-error an unknown member of a vehicle
  console.log(vehicle.prcie);
  // @ts-expect-error a price can be unknown
  console.log(vehicle.price.toFixed(2));
  // @ts-expect-error neither an e-mail address nor a phone number
  const unreachable: Customer = { first_name: "Robin", last_name: "Example" };
  // @ts-expect-error no consent
  await agent.submitLead({ customer: lead.customer, source_agent: "Agent" });
  // @ts-expect-error an unknown channel
  await agent.submitLead({ ...lead, consent: { ...lead.consent, allowed_channels: ["fax"] } });
  // @ts-expect-error an unknown type of appointment
  await agent.submitLead({ ...lead, appointment: { appointment_type: "visit" } });
  const both = { appointment_at: new Date(), requested_windows: [{ start: new Date() }] };
  // @ts-expect-error both forms of an appointment
  await agent.submitLead({ ...lead, appointment: { appointment_type: "test_drive", ...both } });
  // @ts-expect-error a grade is not a sale condition
  await agent.submitLead({ ...lead, vehicle_of_interest: { condition: "good" } });
  // @ts-expect-error an unknown skill
  await agent.ask("inventory.searches");
  // @ts-expect-error an unknown binding
  await DealerAgent.discover("https://dealer.example", { binding: "GRPC" });
  // @ts-expect-error the constructor is private
  new DealerAgent();
  // @ts-expect-error a lead is not sent by a misspelled method
  await agent.sendLead(lead);
  // @ts-expect-error a page is not a list
  for (const each of await agent.search()) console.log(each);
}

export async function rightUses(): Promise<void> {
  const maybe: number | undefined = undefined;
  const filters: Filters = { make: ["Honda"] as const, price_max: maybe };
  const { vehicles, total, skipped } = await agent.search(filters, { sort: "-price", signal: AbortSignal.timeout(5_000) });
  const known: number = total + vehicles.length + skipped.length;
  const isSold: boolean = vehicle.status === "available" || vehicle.status === "a word of later versions";
  const price: number | undefined = (await agent.vehicle(vehicle)).price;
  const receipt = await agent.submitLead({ ...lead, submitted_at: new Date() }, { timeoutMs: 5_000 });
  const times: string[] = receipt.appointment?.proposed_times ?? [];
  for await (const each of agent.searchAll({}, { sort: { field: "year", order: "asc" } })) console.log(each.vin);
  if (error instanceof VehicleNotFound) {
    const code: "VEHICLE_NOT_FOUND" = error.code;
  } else if (error instanceof RateLimited || error instanceof Refused) {
    const wait: number | undefined = error.retryAfterSeconds;
  }
}
