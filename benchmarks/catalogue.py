"""How long the catalogue takes in the process, without any server.

    python benchmarks/catalogue.py [LISTINGS ...]

For each stock size it prints the time and memory to build the snapshot, then p50 and p99 of searches, facets
and look-ups.
"""

import argparse
import gc
import platform
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.protocol.requests import Filters, Sort
from dealer_agent.protocol.vehicle import SaleCondition, Vehicle

MODELS = {
    "Honda": ("Civic", "Accord", "CR-V", "Pilot", "HR-V", "Odyssey"),
    "Toyota": ("Camry", "Corolla", "RAV4", "Highlander", "Tacoma", "Prius"),
    "Ford": ("F-150", "Escape", "Explorer", "Mustang", "Bronco", "Maverick"),
    "Chevrolet": ("Silverado 1500", "Equinox", "Tahoe", "Malibu", "Bolt EV"),
    "Nissan": ("Altima", "Rogue", "Sentra", "Leaf", "Frontier"),
    "Hyundai": ("Elantra", "Tucson", "Santa Fe", "Ioniq 5", "Kona"),
    "Kia": ("Forte", "Sportage", "Sorento", "EV6", "Telluride"),
    "Subaru": ("Outback", "Forester", "Crosstrek", "Impreza"),
    "Volkswagen": ("Jetta", "Tiguan", "Atlas", "ID.4"),
    "Mazda": ("Mazda3", "CX-5", "CX-9", "MX-5 Miata"),
    "BMW": ("330i", "X3", "X5", "i4"),
    "Mercedes-Benz": ("C 300", "GLC 300", "E 350", "EQE"),
    "Tesla": ("Model 3", "Model Y", "Model S"),
    "Jeep": ("Wrangler", "Grand Cherokee", "Compass"),
    "Ram": ("1500", "2500", "ProMaster"),
    "Harley-Davidson": ("Street Glide", "Sportster S", "Road King"),
}
TRIMS = (
    "LX",
    "EX",
    "EX-L",
    "Sport",
    "Touring",
    "SE",
    "XLE",
    "Limited",
    "Lariat",
    "XLT",
    "LT",
    "Premier",
    "SEL",
    "Platinum",
    "S",
    "SV",
    "SL",
    "Base",
    "Premium",
    "Rubicon",
)
BODIES = ("sedan", "suv", "truck", "coupe", "hatchback", "wagon", "convertible", "minivan")
COLOURS = (
    "Glacier White",
    "Gun Metallic",
    "Jet Black",
    "Ruby Red",
    "Lunar Silver Metallic",
    "Atlantic Blue",
    "Sage Green",
    "White",
    "Black",
    "Gray",
)
FEATURES = (
    *(
        f"{grade} {part}"
        for grade in ("Heated", "Power", "Leather", "Dual", "Rear", "Front")
        for part in ("Seats", "Mirrors")
    ),
    *("Apple CarPlay", "Android Auto", "Adaptive Cruise Control", "Lane Departure Warning", "Blind Spot Monitor"),
    *("Moonroof", "Navigation System", "Tow Package", "Third Row Seating", "Premium Audio", "Remote Start"),
)
OPENINGS = ("One owner", "Local trade", "Just arrived", "Well kept", "Fully inspected", "Low miles")


def stock(count: int) -> Iterator[Listing]:
    """A made-up stock, the same in every run."""
    dice = random.Random(7)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    makes = list(MODELS)
    for number in range(count):
        make = dice.choice(makes)
        electric = dice.random() < 0.1
        condition: SaleCondition = dice.choice(("new", "used", "used", "cpo"))
        price = dice.randrange(4_000, 90_000)
        model = dice.choice(MODELS[make])
        features = tuple(dice.sample(FEATURES, 8))
        yield Listing.of(
            Vehicle(
                vehicle_id=f"vin-1HGCM8263{number:08d}",
                status=dice.choice(("available", "available", "intransit", "pending")),
                rooftop=f"Rooftop {dice.randrange(12)}",
                updated_at=start + timedelta(seconds=dice.randrange(9_000_000)),
                changed_at=start + timedelta(seconds=dice.randrange(9_000_000)),
                dealer_id="bench",
                vin=f"1HGCM8263{number:08d}",
                stock=f"S{number:07d}",
                year=dice.randrange(2008, 2027),
                make=make,
                model=model,
                trim=dice.choice(TRIMS),
                condition=condition,
                price=UNSET if dice.random() < 0.05 else price,
                msrp=price + 900,
                mileage=dice.randrange(150_000) if condition != "new" else dice.randrange(50),
                body=dice.choice(BODIES),
                transmission="single_speed" if electric else dice.choice(("automatic", "automatic", "manual", "cvt")),
                driveline=dice.choice(("fwd", "rwd", "awd", "4wd")),
                engine="Electric Motor" if electric else dice.choice(("2.0L I4 Turbo", "3.5L V6", "5.0L V8")),
                fuel="bev" if electric else dice.choice(("gas", "gas", "hybrid", "diesel")),
                electric_range_mi=float(dice.randrange(150, 400)) if electric else UNSET,
                dc_fast_charge=True if electric else UNSET,
                exterior_color=dice.choice(COLOURS),
                interior_color=dice.choice(("Black", "Gray", "Saddle Tan")),
                features=features,
                photos=tuple(f"https://photos.example.com/{number}/{shot}.jpg" for shot in range(6)),
                vdp_url=f"https://www.example.com/inventory/{number}",
                description=f"{dice.choice(OPENINGS)} {make} {model} with {features[0]}, lot {number}.",
            )
        )


def searches() -> Iterator[tuple[Filters, int, Sort | UnsetType]]:
    """What buyers ask for: filters, results to skip and, for about half of them, an order."""
    dice = random.Random(11)
    makes = list(MODELS)
    while True:
        make = dice.choice(makes)
        low = dice.randrange(5_000, 50_000)
        filters = dice.choice(
            (
                Filters(make=[make]),
                Filters(make=[make], model=[dice.choice(MODELS[make])], year_min=dice.randrange(2008, 2026)),
                Filters(price_min=low, price_max=low + 15_000, condition=["used", "cpo"]),
                Filters(body=["suv"], driveline=["AWD", "4wd"], price_max=low + 10_000, mileage_max=60_000),
                Filters(fuel=["hybrid"], exterior_color=["white"], year_min=2018),
                Filters(electric_range_mi_min=dice.randrange(200, 350), dc_fast_charge=True),
            )
        )
        order = Sort(dice.choice(("price", "mileage", "year", "updated_at")), dice.choice(("asc", "desc")))
        yield filters, dice.choice((0, 0, 0, 20, 40)), order if dice.random() < 0.5 else UNSET


def queries() -> Iterator[Filters]:
    """Free text."""
    dice = random.Random(13)
    makes = list(MODELS)
    while True:
        make = dice.choice(makes)
        yield Filters(
            query=dice.choice(
                (
                    f"{make} {dice.choice(MODELS[make])}",
                    f"used awd {dice.choice(BODIES)}",
                    f"{dice.choice(COLOURS)} {make} with moonroof",
                    "f150",
                )
            )
        )


def measure(name: str, call: Callable[..., object], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Prints the percentiles of the call's times, one for each set of arguments."""
    times = []
    for given in arguments:
        begun = time.perf_counter_ns()
        call(*given)
        times.append(time.perf_counter_ns() - begun)
    p50, p99 = np.percentile(times, (50, 99)) / 1000
    print(f"  {name:<22} p50 {p50:>9.1f} µs   p99 {p99:>9.1f} µs")


def run(count: int) -> None:
    """Builds one stock and measures it."""
    begun = time.perf_counter()
    built = 0.0

    def counted() -> Iterator[Listing]:
        nonlocal built
        listings = stock(count)
        while True:
            before = time.perf_counter()
            listing = next(listings, None)
            built += time.perf_counter() - before
            if listing is None:
                return
            yield listing

    catalogue = Catalogue.build(counted())
    took = time.perf_counter() - begun - built
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} listings: built in {took:.2f} s, {peak:,.0f} MiB at the peak")
    repeats = 3_000 if count <= 20_000 else 300
    asked = list(islice(searches(), repeats))
    texts = list(islice(queries(), repeats))
    dice = random.Random(17)
    vins = [f"1HGCM8263{dice.randrange(count):08d}" for _ in range(repeats)]
    for (filters, skip, sort), text in zip(asked[:50], texts[:50], strict=True):
        catalogue.search(filters, skip, 20, sort)
        catalogue.facets(text)
    measure("search", catalogue.search, ((filters, skip, 20, sort) for filters, skip, sort in asked))
    measure("search, no filters", catalogue.search, ((Filters(), skip, 20, sort) for _, skip, sort in asked))
    measure("search, free text", catalogue.search, ((text, 0, 20) for text in texts))
    measure("facets", catalogue.facets, ((filters,) for filters, _, _ in asked))
    measure("find by VIN", catalogue.find, ((vin,) for vin in vins))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listings", nargs="*", type=int, default=[1_000, 50_000])
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    for size in parser.parse_args().listings:
        run(size)
