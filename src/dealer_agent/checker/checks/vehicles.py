"""Checks the members of listings, and inventory.vehicle: one vehicle by VIN, stock number or id."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.fields import MEMBERS, id_of
from dealer_agent.checker.oracle import ESSENTIAL, comparable, differ
from dealer_agent.checker.outcome import Failed, Judgement, Skipped, conclude, expect, has, skip_if_failed, skip_unless
from dealer_agent.checker.reply import code, data_of, if_refused, is_answered, refusal_of, refused, rejected
from dealer_agent.checker.searches import identified, key_of, number_of, search, spread
from dealer_agent.checker.target import Listing, Target, asking, elsewhere

_SKILL = "inventory.vehicle"
_UNKNOWN = {"vin": "5UXZZZ00X00Z00000", "stock": "QZXVWK-0", "vehicle_id": "qzxvwk-0"}
_NOT_COMPARED = ("changed_at", "description", "notes", "vin")
"""Members that may be shorter in a search, or have a check: `vehicle.by-vin` compares the VIN."""
_SHORTENED = ("features", "photos")
"""Lists of which a search may have the first entries only."""
_NULLABLE = ("rooftop", "charge_port")
"""Members that the published versions allow to be null."""
_OF_PRICE = ("price", "list_price", "msrp", "fees")
"""Members that may depend on where the buyer lives."""
_ZIP = "37203"
MOST_KINDS = 12
MOST_SPREAD = 24
"""How many details are compared with the search: of vehicles of different kinds, and spread over the stock."""


async def _unique_listing(target: Target, member: str) -> Listing:
    """A listing with a member whose value no other listing has, an available one if there is one."""
    listings = await identified(target, member)
    values = [each[member] for each in listings]
    own = skip_unless(
        [each for each in listings if values.count(each[member]) == 1],
        f"No listing has a {member} that no other listing has.",
    )
    return next((each for each in own if each.get("status") == "available"), own[0])


async def _listing_and_detail(target: Target) -> tuple[Listing, Listing]:
    listing = await _unique_listing(target, "vin")
    return listing, await target.ask(_SKILL, vin=listing["vin"])


@check_each(
    {
        "vehicle.by-stock": ("stock", lambda listing: {"stock": listing["stock"]}),
        "vehicle.by-vehicle-id": ("vehicle_id", lambda listing: {"vehicle_id": listing["vehicle_id"]}),
        "vehicle.vin-case": ("vin", lambda listing: {"vin": listing["vin"].lower()}),
        "vehicle.next-identifier": ("stock", lambda listing: {"vin": _UNKNOWN["vin"], "stock": listing["stock"]}),
        "vehicle.zip": ("vin", lambda listing: {"vin": listing["vin"], "zip": _ZIP}),
    }
)
async def _(target: Target, member: str, members: Callable[[Listing], Listing]) -> None:
    listing = await _unique_listing(target, member)
    value = (await target.ask(_SKILL, **members(listing))).get(member)
    expect(value == listing[member], f"The response has {member} {value!r}.")


@check_each({"strict.vehicle-unknown-member": {"colour_of_seats": "red"}, "strict.vehicle-zip-type": {"zip": 37203}})
async def _(target: Target, members: Listing) -> None:
    # An unknown VIN would be refused with and without the wrong member.
    listing = await _unique_listing(target, "vin")
    exchange = await asking(_SKILL, vin=listing["vin"], **members)(target)
    conclude(rejected(exchange), exchange)


async def _with_unknown_zip(target: Target) -> Exchange:
    return await target.send(target.payload(_SKILL, vin=(await _unique_listing(target, "vin"))["vin"], zip=_ZIP))


async def _with_unknown_identifiers(target: Target) -> list[Exchange]:
    return [await target.send(target.payload(_SKILL, **{name: _UNKNOWN[name]})) for name in ("stock", "vehicle_id")]


judge_each(
    {
        # `errors.unknown-vehicle` is the check of an unknown VIN.
        "vehicle.unknown-identifiers": (_with_unknown_identifiers, refused),
        "vehicle.unknown-stock": (asking(_SKILL, stock=_UNKNOWN["stock"]), code("VEHICLE_NOT_FOUND")),
        "vehicle.unknown-vehicle-id": (asking(_SKILL, vehicle_id=_UNKNOWN["vehicle_id"]), code("VEHICLE_NOT_FOUND")),
        "vehicle.no-identifier-code": (
            asking(_SKILL),
            if_refused(code("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")),
        ),
        "vehicle.zip-unknown": (_with_unknown_zip, rejected),
    }
)


async def _varied_listings(target: Target) -> list[Listing]:
    """Available listings with a VIN of their own: the first, one of each kind, some of the whole stock, the last."""
    vins = Counter(each["vin"] for each in await identified(target, "vin"))
    listings = [each for each in await identified(target, "vin") if each.get("status") == "available"]
    own = [await _unique_listing(target, "vin"), *(each for each in listings if vins[each["vin"]] == 1)]
    conditions = {str(each.get("condition")): each for each in reversed(own)}
    names = ("condition", "rooftop", "vehicle_type", "fuel")
    kinds = {(each.get("price") is None, *(str(each.get(name)) for name in names)): each for each in reversed(own)}
    others = spread(own, "vin", MOST_SPREAD)
    chosen = [own[0], *conditions.values(), *list(kinds.values())[::-1][:MOST_KINDS], *others, own[-1]]
    return list({key_of(each): each for each in chosen}.values())


def _difference(listing: Listing, detail: Listing) -> str | None:
    """How a detail differs from the listing in a search; None if it does not. It may have more, and less."""
    if detail.get("price") is not None and listing.get("price") is None:
        return f"inventory.vehicle gives {key_of(listing)} the price {detail['price']!r}, and a search none."
    for name, value in listing.items():
        if name in detail and name not in _NOT_COMPARED and _differs(name, value, detail[name]):
            return f"{name} of {key_of(listing)} is {value!r} in a search and {detail[name]!r} in inventory.vehicle."
    return None


def _differs(name: str, value: Any, other: Any) -> bool:
    """Whether the value of a member in a search is another than that in a detail."""
    if name in _SHORTENED and isinstance(value, list) and isinstance(other, list):
        return not {*map(repr, comparable(value))} <= {*map(repr, comparable(other))}
    if name == "updated_at" and forms.moment(value) and forms.moment(other):
        return datetime.fromisoformat(value.upper()) != datetime.fromisoformat(other.upper())
    return differ(value, other)


async def _detail(target: Target, listing: Listing) -> Listing:
    """The detail of a listing. Each vocabulary of the card is used."""
    vendors = sorted(target.card.vendors or [target.vendor], key=lambda each: each != target.vendor)
    vendor = vendors[sum(listing["vin"].encode()) // 2 % len(vendors)]
    return await elsewhere(target, target.interface, vendor).ask(_SKILL, vin=listing["vin"])


@check("vehicle.by-vin")
async def _(target: Target) -> None:
    for listing in await _varied_listings(target):
        vin = (await _detail(target, listing)).get("vin")
        expect(vin == listing["vin"], f"The response to the VIN {listing['vin']} has the VIN {vin!r:.100}.")


@check("vehicle.same-listing")
async def _(target: Target) -> None:
    for listing in await _varied_listings(target):
        wrong = _difference(listing, await _detail(target, listing))
        expect(wrong is None, str(wrong))


@check("vehicle.essential")
async def _(target: Target) -> None:
    for listing in await _varied_listings(target):
        detail = await _detail(target, listing)
        less = [each for each in ESSENTIAL if listing.get(each) is not None and detail.get(each) is None]
        expect(not less, f"inventory.vehicle lacks {less and less[0]} of {listing['vin']}, which a search has.")


@check("vehicle.member-forms")
async def _(target: Target) -> None:
    for listing in await _varied_listings(target):
        detail = await _detail(target, listing)
        for name in ESSENTIAL:
            form, words = MEMBERS[name]
            good = detail.get(name) is None or form(detail[name])
            expect(good, f"In inventory.vehicle, {name} of {listing['vin']} is {detail.get(name)!r:.100}, not {words}.")


@check("listing.vehicle-id-stable")
async def _(target: Target) -> None:
    """Two searches are compared by VIN. Other checks judge a vehicle without a VIN or an id."""
    seen: dict[str, Any] = {}
    for _ in range(2):
        exchange = await target.send(target.payload("inventory.search", pagination={"limit": 21}), fresh=True)
        for each in dicts(data_of(exchange).get("vehicles")):
            vin, vehicle_id = each.get("vin"), each.get("vehicle_id")
            if forms.vin(vin) and vehicle_id is not None:
                first = seen.setdefault(str(vin), vehicle_id)
                expect(first == vehicle_id, f"The vehicle_id of {vin} was {first!r}, now {vehicle_id!r}.", exchange)


@check("vehicle.same-by-identifier")
async def _(target: Target) -> None:
    for listing in (await _varied_listings(target))[:: MOST_SPREAD // 4]:
        for member in ("stock", "vehicle_id"):
            values = [each.get(member) for each in await target.listings()]
            if not forms.name(listing.get(member)) or values.count(listing[member]) > 1:
                continue
            # An agent may know VINs only: `vehicle.by-stock` and `vehicle.by-vehicle-id` judge that.
            with skip_if_failed():
                detail = await target.ask(_SKILL, **{member: listing[member]})
            less = next((each for each in ESSENTIAL if each in listing and each not in detail), None)
            wrong = _difference(listing, detail) or (less and f"the detail lacks {less}.")
            expect(wrong is None, f"By {member}: {wrong}")


@check("vehicle.complete")
async def _(target: Target) -> None:
    listing, found = await _listing_and_detail(target)
    less = listing.keys() - found.keys()
    expect(not less, f"inventory.vehicle lacks {min(less, default='')}, which a search has.")


@check("vehicle.listed-found")
async def _(target: Target) -> None:
    """A vehicle of each status is asked for. It may be no longer available."""
    statuses = {str(each.get("status")): each["vin"] for each in await identified(target, "vin")}
    for status, vin in statuses.items():
        exchange = await target.send(target.payload(_SKILL, vin=vin))
        if not is_answered(exchange):
            error = refusal_of(exchange)
            words = f"A search has {vin}, which is {status}, and the detail is refused as {error.code}."
            expect(error.code == "VEHICLE_UNAVAILABLE", words, exchange)


@check_each({"vehicle.pending": "pending", "vehicle.intransit": "intransit"})
async def _(target: Target, status: str) -> None:
    vins = [each["vin"] for each in await identified(target, "vin") if each.get("status") == status]
    await target.ask(_SKILL, vin=skip_unless(vins, f"No listing has the status {status}.")[0])


@check("vehicle.vin-first")
async def _(target: Target) -> None:
    """The VIN of one vehicle is asked for with the stock number of another."""
    first = await _unique_listing(target, "vin")
    stocks = [each["stock"] for each in await identified(target, "stock") if key_of(each) != key_of(first)]
    others = [stock for stock in stocks if stock != first.get("stock")]
    detail = await target.ask(
        _SKILL, vin=first["vin"], stock=skip_unless(others, "No two listings have stock numbers.")[0]
    )
    expect(
        detail.get("vin") == first["vin"], "The response has the vehicle of the stock number, and not that of the VIN."
    )


async def _with_zip(target: Target, vin: str = "") -> Listing:
    """The response to a request with a ZIP code. `vehicle.zip` fails if it is refused."""
    wanted = vin or (await _unique_listing(target, "vin"))["vin"]
    with skip_if_failed("There is no response with a ZIP code: "):
        return await target.ask(_SKILL, vin=wanted, zip=_ZIP)


async def _without_zip(target: Target) -> Listing:
    return (await _listing_and_detail(target))[1]


judge_each(
    {
        "vehicle.zip-echo": (_with_zip, has("zip", forms.one_of(_ZIP))),
        "vehicle.no-zip": (
            _without_zip,
            lambda found: found.keys().isdisjoint({"zip", "offered_price"}) or "There is zip or offered_price.",
        ),
    }
)


@check("vehicle.zip-same-vehicle")
async def _(target: Target) -> None:
    """A ZIP code may lower a price. A higher one has charges in it that the advertised price does not have."""
    for listing in [await _unique_listing(target, "vin"), *spread(await identified(target, "vin"), "vin", 2)]:
        detail = await _with_zip(target, listing["vin"])
        for name in listing.keys() - {*_OF_PRICE}:
            lost = name in ESSENTIAL and name not in detail
            wrong = lost or (
                name in detail and name not in _NOT_COMPARED and _differs(name, listing[name], detail[name])
            )
            words = f"{name} of {listing['vin']} is {detail.get(name)!r:.100}, and not {listing[name]!r:.100}."
            expect(not wrong, f"With a ZIP code, {words}")
        price, other = number_of(listing, "price"), number_of(detail, "price")
        dearer = price is not None and other is not None and other > price
        expect(not dearer, f"With a ZIP code, {listing['vin']} costs {other} dollars, and {price} without.")


@check("vehicle.zip-same-price")
async def _(target: Target) -> None:
    priced = [each for each in await target.having("price") if forms.vin(each.get("vin"))]
    first = skip_unless(priced, "No listing with a VIN has a price.")[0]
    conclude(has("price", forms.one_of(first["price"]))(await _with_zip(target, first["vin"])))


@check("vehicle.offered-price")
async def _(target: Target) -> None:
    """A dealer may have an offer for one condition only, so a vehicle of each is asked for."""
    listings = await identified(target, "vin")
    for condition in ("new", "used", "cpo"):
        priced = (each for each in listings if each.get("condition") == condition and each.get("price"))
        if each := next(priced, None):
            offered: Any = (await _with_zip(target, each["vin"])).get("offered_price")
            if offered is not None:
                good = isinstance(offered, int) and not isinstance(offered, bool) and offered >= 0
                expect(good, f"offered_price is {offered!r}.")
                return
    raise Skipped("The dealer has no price for the area of the check.")


# The members of listings


def _has_no_null(listing: Listing) -> bool | str:
    null = [member for member in MEMBERS if member not in _NULLABLE and listing.get(member, "") is None]
    return not null or f"{null[0]} is null."


def _fees_are_inside_price(listing: Listing) -> bool | str:
    fees = sum(int(fee["amount"]) for fee in dicts(listing["fees"]) if forms.whole(fee.get("amount")))
    price = number_of(listing, "price")
    return price is None or fees <= price or f"The fees of {fees} dollars are more than the price of {price}."


def _fees_have_names(listing: Listing) -> bool | str:
    names = [str(fee.get("name")) for fee in dicts(listing["fees"])]
    return len(set(names)) == len(names) or "Two fees of a listing have one name."


def _has(member: str) -> Judgement:
    return lambda listing: member in listing or f"A listing has no {member}."


# The member that listings must have to be judged, and the judgement of each
@check_each(
    {
        **{
            f"listing.{id_of(member)}": (member, has(member, form, f"not {words}"))
            for member, (form, words) in MEMBERS.items()
        },
        **{
            f"listing.has-{id_of(each)}": ("", _has(each)) for each in ("vehicle_id", "status", "rooftop", "updated_at")
        },
        "listing.no-null": ("", _has_no_null),
        "listing.fees-inside-price": ("fees", _fees_are_inside_price),
        "listing.fee-names": ("fees", _fees_have_names),
    }
)
async def _(target: Target, member: str, judgement: Judgement) -> None:
    for each in await (target.having(member) if member else target.some_listings()):
        if (judged := judgement(each)) is not True:
            raise await _failed(target, each, str(judged))


async def _failed(target: Target, listing: Listing, sentence: str) -> Failed:
    """The failure for a listing. Its exchange is a small one that shows the listing, if there is one."""
    if forms.vin(listing.get("vin")):
        await search(target, filters={"vin": listing["vin"]})
    return Failed(f"{key_of(listing)[:100]}: {sentence}")


@check_each({"listing.one-vehicle-id": "vehicle_id", "listing.one-vin": "vin"})
async def _(target: Target, member: str) -> None:
    values = [each[member] for each in await target.having(member) if isinstance(each[member], str)]
    twice = next((value for value in set(values) if values.count(value) > 1), None)
    expect(twice is None, f"Two listings have the {member} {twice}.")


@check("listing.vin-of-one-vehicle")
async def _(target: Target) -> None:
    known: dict[str, Listing] = {}
    for each in await target.having("vin"):
        first = known.setdefault(str(each["vin"]), each)
        for name in ("year", "make", "model"):
            same = first.get(name) == each.get(name)
            expect(same, f"{each['vin']} has the {name} {first.get(name)!r} and {each.get(name)!r:.100}.")


@check("listing.rooftop-known")
async def _(target: Target) -> None:
    """The first listing whose rooftop is unknown fails the check."""
    with skip_if_failed("dealer.information cannot be read: "):
        information = await target.ask("dealer.information")
    names = {str(each.get("name")) for each in dicts(information.get("rooftops"))}
    skip_unless(names, "dealer.information has no rooftops.")
    for each in await target.having("rooftop"):
        if isinstance(each["rooftop"], str) and each["rooftop"] not in names:
            raise await _failed(target, each, f"{each['rooftop']} is not a rooftop of dealer.information.")
