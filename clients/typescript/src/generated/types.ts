// Written by `make docs` from the published schemas. Do not edit.

/** One of the known words, or another word that a later version of the protocol adds. */
export type Word<Known extends string> = Known | (string & Record<never, never>);

/** A time: a `Date`, or a text of RFC 3339 such as `2026-11-20T15:00:00Z`. */
export type Timestamp = string | Date;

/**
 * Absent members and empty arrays mean no constraint. Texts match whole values without regard to case, accents,
 * spacing and punctuation, and through well-known synonyms. Ranges include their ends; a listing without the value
 * does not match a range on it.
 */
export interface Filters {
  make?: readonly string[] | undefined;
  model?: readonly string[] | undefined;
  trim?: readonly string[] | undefined;
  condition?: readonly ("cpo" | "new" | "used")[] | undefined;
  vehicle_type?: readonly ("car" | "motorcycle" | "other" | "rv" | "trailer")[] | undefined;
  transmission?: readonly string[] | undefined;
  fuel?: readonly string[] | undefined;
  electric_range_mi_min?: number | undefined;
  electric_range_mi_max?: number | undefined;
  dc_fast_charge?: boolean | undefined;
  charge_port?: readonly string[] | undefined;
  driveline?: readonly string[] | undefined;
  body?: readonly string[] | undefined;
  displacement_cc_min?: number | undefined;
  displacement_cc_max?: number | undefined;
  exterior_color?: readonly string[] | undefined;
  interior_color?: readonly string[] | undefined;
  rooftops?: readonly string[] | undefined;
  year_min?: number | undefined;
  year_max?: number | undefined;
  price_min?: number | undefined;
  price_max?: number | undefined;
  mileage_max?: number | undefined;
  vin?: string | undefined;
  stock?: string | undefined;
  query?: string | undefined;
}

/** Which part of the matching set to return. */
export interface Pagination {
  skip?: number | undefined;
  limit?: number | undefined;
}

/** An order; both members are required. A listing without a value comes last in both directions. */
export interface Sort {
  field: "list_price" | "make" | "mileage" | "model" | "msrp" | "price" | "stock" | "updated_at" | "year";
  order: "asc" | "desc";
}

/** Search anonymously. Send the customer's data only with a lead. */
export interface Privacy {
  anonymous?: boolean | undefined;
}

/** A name, and an e-mail address or a phone number. */
export type Customer = {
  first_name: string;
  last_name: string;
  email?: string | undefined;
  /** With a leading + */
  phone?: string | undefined;
  preferred_contact?: "any" | "email" | "phone" | "sms" | undefined;
  address?: Address | undefined;
} & ({ email: string } | { phone: string });

/** A postal address; every member is a string. */
export interface Address {
  address_line_1?: string | undefined;
  address_line_2?: string | undefined;
  city?: string | undefined;
  state?: string | undefined;
  zip?: string | undefined;
  country?: string | undefined;
}

/** The submitting buyer agent, in the long form. */
export interface SourceAgent {
  name: string;
  url?: string | undefined;
  agent_card_url?: string | undefined;
}

/** The vehicle that the buyer asks about. All members are optional. */
export interface VehicleOfInterest {
  vin?: string | undefined;
  stock?: string | undefined;
  vehicle_type?: "car" | "motorcycle" | "other" | "rv" | "trailer" | undefined;
  year?: number | undefined;
  make?: string | undefined;
  model?: string | undefined;
  trim?: string | undefined;
  list_price?: number | undefined;
  msrp?: number | undefined;
  fees?: readonly LeadFee[] | undefined;
  mileage?: number | undefined;
  body?: string | undefined;
  transmission?: string | undefined;
  driveline?: string | undefined;
  engine?: string | undefined;
  displacement_cc?: number | undefined;
  fuel?: string | undefined;
  city_mpg?: number | undefined;
  highway_mpg?: number | undefined;
  electric_range_mi?: number | undefined;
  battery_kwh?: number | undefined;
  motor_power_hp?: number | undefined;
  dc_fast_charge?: boolean | undefined;
  charge_port?: string | undefined;
  exterior_color?: string | undefined;
  interior_color?: string | undefined;
  features?: readonly string[] | undefined;
  photos?: readonly string[] | undefined;
  vdp_url?: string | undefined;
  description?: string | undefined;
  notes?: string | undefined;
  other_attributes?: Record<string, string | number | boolean> | undefined;
  inventory_date?: string | undefined;
  vehicle_id?: string | undefined;
  condition?: "cpo" | "new" | "used" | undefined;
  price?: number | undefined;
  rooftop?: string | undefined;
}

/** The vehicle that the buyer would trade in. All members are optional. `condition` is a grade. */
export interface TradeIn {
  vin?: string | undefined;
  stock?: string | undefined;
  vehicle_type?: "car" | "motorcycle" | "other" | "rv" | "trailer" | undefined;
  year?: number | undefined;
  make?: string | undefined;
  model?: string | undefined;
  trim?: string | undefined;
  list_price?: number | undefined;
  msrp?: number | undefined;
  fees?: readonly LeadFee[] | undefined;
  mileage?: number | undefined;
  body?: string | undefined;
  transmission?: string | undefined;
  driveline?: string | undefined;
  engine?: string | undefined;
  displacement_cc?: number | undefined;
  fuel?: string | undefined;
  city_mpg?: number | undefined;
  highway_mpg?: number | undefined;
  electric_range_mi?: number | undefined;
  battery_kwh?: number | undefined;
  motor_power_hp?: number | undefined;
  dc_fast_charge?: boolean | undefined;
  charge_port?: string | undefined;
  exterior_color?: string | undefined;
  interior_color?: string | undefined;
  features?: readonly string[] | undefined;
  photos?: readonly string[] | undefined;
  vdp_url?: string | undefined;
  description?: string | undefined;
  notes?: string | undefined;
  other_attributes?: Record<string, string | number | boolean> | undefined;
  inventory_date?: string | undefined;
  condition?: "excellent" | "fair" | "good" | "poor" | undefined;
}

/** A requested visit: with windows or with one time, never both. Both protocol revisions accept both forms. */
export interface Appointment {
  appointment_type: "handover" | "phone_call" | "sales" | "service" | "showroom_visit" | "test_drive" | "trade_in" | "trade_in_appraisal" | "video_call";
  requested_windows?: readonly RequestedWindow[] | undefined;
  appointment_at?: Timestamp | undefined;
  /** IANA zone name */
  timezone?: string | undefined;
  duration_minutes?: number | undefined;
  notes?: string | undefined;
}

/** A period in which the buyer can visit. */
export interface RequestedWindow {
  start: Timestamp;
  end?: Timestamp | undefined;
}

/**
 * The quote or the hold that a lead is about. Of both, the hold decides. Only for a request that names the offers
 * extension. Other members are ignored.
 */
export type LeadOffer = {
  quote_id?: string | undefined;
  hold_id?: string | undefined;
} & ({ quote_id: string } | { hold_id: string });

/** A mandatory dealer charge, in whole US dollars. */
export interface LeadFee {
  name: string;
  amount: number;
}

/** What the customer agreed to, when, and through which channels. */
export interface Consent {
  granted_at: Timestamp;
  allowed_channels: readonly ("email" | "phone" | "sms")[];
  consent_text: string;
  scope: readonly string[];
  source_agent?: string | undefined;
  expires_at?: Timestamp | undefined;
}

/** A customer who consented, and any combination of a vehicle of interest, a trade-in and an appointment. */
export interface Lead {
  customer: Customer;
  source_agent: string | SourceAgent;
  consent: Consent;
  vehicle_of_interest?: VehicleOfInterest | undefined;
  trade_in?: TradeIn | undefined;
  appointment?: Appointment & ({ requested_windows?: undefined } | { appointment_at?: undefined }) | undefined;
  message?: string | undefined;
  submitted_at?: Timestamp | undefined;
  idempotency_key?: string | undefined;
  offer?: LeadOffer | undefined;
}

/** A sales location. */
export interface Rooftop {
  name: string;
  legal_name?: string;
  website?: string;
  geo?: GeoPoint;
  emails?: Named[];
  phones?: Named[];
  address?: PostalAddress;
  schedules?: Schedule[];
  timezone?: string;
  notes?: string;
  capabilities?: string[];
  fees?: Fee[];
}

/** WGS 84 degrees. */
export interface GeoPoint {
  latitude: number;
  longitude: number;
}

/** A labelled e-mail address or phone number. */
export interface Named {
  name?: string;
  value: string;
}

/** A rooftop's postal address. */
export interface PostalAddress {
  address_line_1?: string;
  city?: string;
  state?: string;
  zip?: string;
  address_line_2?: string;
  country?: string;
}

/** The hours of one department (sales, service, ...). */
export interface Schedule {
  name?: string;
  value: Week;
}

/** Hours of each day; null when closed. */
export interface Week {
  monday?: OpenHours | null;
  tuesday?: OpenHours | null;
  wednesday?: OpenHours | null;
  thursday?: OpenHours | null;
  friday?: OpenHours | null;
  saturday?: OpenHours | null;
  sunday?: OpenHours | null;
}

/** `HH:MM`, rooftop time. A `close` that is not later than `open` is on the next day. */
export interface OpenHours {
  open: string;
  close: string;
}

/** A mandatory dealer charge, in whole US dollars. */
export interface Fee {
  name: string;
  amount: number;
}

/** Who the dealer is. At least one rooftop. */
export interface DealerInformation {
  name: string;
  rooftops: Rooftop[];
  welcome_message?: string;
}

/** How many listings of the matching set have this value. */
export interface TextCount {
  value: string | number | boolean;
  count: number;
}

/** How many listings of the matching set have this model year. */
export interface YearCount {
  value: string | number;
  count: number;
}

/** Least and greatest value in the matching set. */
export interface IntRange {
  min: number;
  max: number;
}

/** Least and greatest value in the matching set. */
export interface FloatRange {
  min: number;
  max: number;
}

/** Highest count first, then by value. A facet without a value in the matching set is left out. */
export interface Facets {
  makes?: TextCount[];
  models?: TextCount[];
  trims?: TextCount[];
  years?: YearCount[];
  conditions?: TextCount[];
  vehicle_types?: TextCount[];
  transmissions?: TextCount[];
  fuels?: TextCount[];
  dc_fast_charge?: TextCount[];
  charge_ports?: TextCount[];
  drivelines?: TextCount[];
  bodies?: TextCount[];
  exterior_colors?: TextCount[];
  interior_colors?: TextCount[];
  rooftops?: TextCount[];
  statuses?: TextCount[];
  price_range?: IntRange;
  mileage_range?: IntRange;
  year_range?: IntRange;
  displacement_cc_range?: IntRange;
  electric_range_mi_range?: FloatRange;
}

/** A listing. An absent member is unknown. A dealer can add members of its own. */
export interface Vehicle {
  vin?: string;
  stock?: string;
  vehicle_type?: Word<"car" | "motorcycle" | "other" | "rv" | "trailer">;
  year?: number;
  make?: string;
  model?: string;
  trim?: string;
  list_price?: number;
  msrp?: number;
  fees?: Fee[];
  mileage?: number;
  body?: string;
  transmission?: string;
  driveline?: string;
  engine?: string;
  displacement_cc?: number;
  fuel?: string;
  city_mpg?: number;
  highway_mpg?: number;
  electric_range_mi?: number;
  battery_kwh?: number;
  motor_power_hp?: number;
  dc_fast_charge?: boolean;
  charge_port?: string;
  exterior_color?: string;
  interior_color?: string;
  features?: string[];
  photos?: string[];
  vdp_url?: string;
  description?: string;
  notes?: string;
  other_attributes?: Record<string, unknown>;
  inventory_date?: string;
  vehicle_id?: string;
  status: Word<"available" | "intransit" | "pending">;
  rooftop?: string;
  updated_at?: string;
  changed_at?: string;
  dealer_id?: string;
  condition?: Word<"cpo" | "new" | "used">;
  price?: number;
}

/** One page; `skip` and `limit` as they were applied. */
export interface SearchPage {
  total: number;
  skip?: number;
  limit?: number;
  vehicles: Vehicle[];
}

/**
 * The listing, and what the buyer's ZIP code adds. `held_until`: an agent holds the vehicle until then. Only for a
 * request that names the offers extension.
 */
export interface VehicleDetail extends Vehicle {
  zip?: string;
  offered_price?: number;
  held_until?: string;
}

/** The result of the requested visit. Times have the UTC offset of the rooftop. */
export interface AppointmentReply {
  appointment_id: string;
  status: Word<"confirmed" | "proposed" | "rejected" | "requested">;
  confirmed_at?: string;
  proposed_times?: string[];
  confirmed_window?: TimeSlot;
  proposed_slots?: TimeSlot[];
}

/** RFC 3339 with the rooftop's offset. */
export interface TimeSlot {
  start: string;
  end?: string;
}

/** Whom the customer may call. */
export interface DealerContact {
  name?: string;
  phone?: string;
}

/** What became of the lead. `lead_secret` is for an anonymous sender that names the offers extension. */
export interface LeadReceipt {
  lead_id: string;
  status: Word<"duplicate" | "received" | "rejected">;
  appointment?: AppointmentReply;
  dealer?: DealerContact;
  lead_secret?: string;
}

/** A listing that was added, changed or removed. `vehicle` is the listing as it is now; absent if it was removed. */
export interface StockChange {
  vehicle_id: string;
  change: Word<"added" | "changed" | "removed">;
  vehicle?: Vehicle;
}

/**
 * A page of changes, in the order in which to apply them. With `more`, ask at once with this `cursor`.  Without
 * `more`, all changes together give what a search over everything answers. Ask again later.
 */
export interface StockChanges {
  changes: StockChange[];
  cursor: string;
  more: boolean;
}

/** The vehicle of a quote, as it was when the quote was made. */
export interface QuotedVehicle {
  vehicle_id: string;
  vin?: string;
  stock?: string;
  year?: number;
  make?: string;
  model?: string;
  trim?: string;
  condition?: string;
  mileage?: number;
}

/** A part of the all-in price. A firm line does not change while the quote is valid; others are estimates. */
export interface PriceLine {
  label: string;
  kind: Word<"addon" | "discount" | "doc" | "rebate" | "registration" | "tax" | "title" | "transport" | "vehicle_price">;
  payee: Word<"dealer" | "government" | "manufacturer" | "third_party">;
  amount: number;
  firm: boolean;
  legal_basis?: string;
}

/** The place whose taxes and charges the lines are: that of the buyer's ZIP code, else that of the rooftop. */
export interface Jurisdiction {
  of: Word<"buyer" | "rooftop">;
  state?: string;
  zip?: string;
}

/**
 * The all-in price of a vehicle. The dealer keeps `price` until `valid_until`, unless the vehicle is gone. `total`
 * is the sum of the lines. If it is not `complete`, `missing` names what is not in it. `stock_at` is when the feed
 * last confirmed the vehicle. `signature` is a JWS (RFC 7515) of all other members.
 */
export interface Quote {
  quote_id: string;
  vehicle: QuotedVehicle;
  price: number;
  lines: PriceLine[];
  total: number;
  complete: boolean;
  missing: (Word<"addon" | "discount" | "doc" | "rebate" | "registration" | "tax" | "title" | "transport" | "vehicle_price">)[];
  jurisdiction: Jurisdiction;
  currency: string;
  created_at: string;
  valid_until: string;
  terms: string;
  stock_at?: string;
  buyer_ref?: string;
  signature?: string;
}

/** A hold of a vehicle. It holds until `expires_at` while `status` is `active` or `became_lead`. */
export interface Hold {
  hold_id: string;
  quote_id: string;
  vehicle_id: string;
  price: number;
  currency: string;
  created_at: string;
  expires_at: string;
  status: Word<"active" | "became_lead" | "ended_by_dealer" | "expired" | "released" | "sold">;
  terms: string;
}

/**
 * A visit as it is now. `at` has the UTC offset of the rooftop; a visit without a time has none. `alternatives` are
 * free times, if the visit needs another one.
 */
export interface LeadVisit {
  appointment_id: string;
  appointment_type: Word<"handover" | "phone_call" | "sales" | "service" | "showroom_visit" | "test_drive" | "trade_in" | "trade_in_appraisal" | "video_call">;
  status: Word<"cancelled" | "confirmed" | "proposed" | "requested">;
  place: VisitPlace;
  at?: string;
  duration_minutes?: number;
  alternatives?: string[];
}

/** The rooftop of a visit. */
export interface VisitPlace {
  name: string;
  address?: PostalAddress;
}

/**
 * What became of a lead. `visit` is its newest visit that can still be changed, else its newest one, or the one
 * that was just moved or cancelled. `other_visits` are the others that can still be changed.
 */
export interface LeadState {
  lead_id: string;
  status: Word<"duplicate" | "received">;
  received_at: string;
  visit?: LeadVisit;
  other_visits?: LeadVisit[];
}
