"""A year of daily feeds of ten invented dealers: sales, arrivals, new prices, sales campaigns, holidays, a new vendor.

Nothing in these feeds is wrong, so whatever the checks find is a false alarm. `python -m tests.feeds.simulated_year`
imports the whole year and prints what was found.
"""

import csv
import io
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.feeds.files.layouts import LAYOUTS
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.store import Store

FIRST_DAY = date(2026, 1, 2)
MODELS = {
    "mainstream": {
        ("Toyota", "Camry"): (27_500, ("LE", "SE", "XSE")),
        ("Toyota", "RAV4"): (30_500, ("LE", "XLE", "Limited")),
        ("Toyota", "Tacoma"): (34_000, ("SR", "TRD Off-Road")),
        ("Honda", "Civic"): (25_000, ("LX", "Sport", "Touring")),
        ("Honda", "CR-V"): (31_500, ("EX", "EX-L")),
        ("Ford", "Escape"): (30_000, ("Active", "ST-Line")),
        ("Hyundai", "Elantra"): (22_500, ("SE", "SEL")),
        ("Kia", "Sorento"): (33_000, ("LX", "EX")),
    },
    "trucks": {
        ("Ford", "F-150"): (44_000, ("XL", "XLT", "Lariat", "Platinum", "Raptor")),
        ("Ford", "Super Duty F-350"): (58_000, ("XL", "King Ranch")),
        ("Chevrolet", "Silverado 1500"): (42_000, ("WT", "LT", "High Country")),
        ("Ram", "2500"): (52_000, ("Tradesman", "Laramie", "Limited")),
    },
    "luxury": {
        ("Porsche", "911"): (125_000, ("Carrera", "Turbo S", "GT3 RS")),
        ("Mercedes-Benz", "S-Class"): (118_000, ("S 500", "S 580", "Maybach")),
        ("BMW", "X5"): (68_000, ("xDrive40i", "M Competition")),
        ("Bentley", "Continental GT"): (245_000, ("V8", "Speed")),
        ("Ferrari", "296 GTB"): (330_000, ("",)),
    },
    "classic": {
        ("Chevrolet", "Corvette"): (62_000, ("Stingray", "327")),
        ("Ford", "Mustang"): (38_000, ("Fastback", "Boss 302")),
        ("Porsche", "356"): (140_000, ("C Coupe",)),
        ("Volkswagen", "Beetle"): (16_000, ("",)),
    },
}
TRIM_FACTOR = {"Platinum": 1.5, "Raptor": 1.8, "High Country": 1.45, "Limited": 1.35, "Turbo S": 1.9, "GT3 RS": 2.0}
TRIM_FACTOR |= {"Maybach": 1.7, "Speed": 1.15, "Boss 302": 1.7, "327": 1.2, "King Ranch": 1.4, "M Competition": 1.8}
COLORS = ("White", "Black", "Silver", "Gray", "Red", "Blue", "Green")


class Kind(NamedTuple):
    """What a dealer sells: its usual stock, the share of new units, the ages of used ones, and its habits."""

    name: str
    models: str
    stock: int
    share_new: float = 0.0
    ages: tuple[int, int] = (1, 8)
    unpriced: float = 0.02
    layout: str = "vauto"
    later_layout: str = "homenet"
    rooftops: int = 1
    days_to_sell: float = 45.0
    month_end: float = 0.0
    bulk: float = 0.0
    """The share of the stock that goes to an auction on the first of a month, and that comes from one on the tenth."""


KINDS = (
    Kind("franchise", "mainstream", 150, share_new=0.6, month_end=0.02),
    Kind("independent", "mainstream", 45, ages=(5, 14), layout="homenet", later_layout="vauto"),
    Kind("luxury", "luxury", 60, share_new=0.3, ages=(1, 5), unpriced=0.1, days_to_sell=70),
    Kind("old-cars", "mainstream", 50, ages=(10, 19), unpriced=0.2, days_to_sell=30),
    Kind("trucks", "trucks", 120, share_new=0.7, month_end=0.03),
    Kind("group", "mainstream", 200, share_new=0.5, rooftops=3),
    Kind("young-used", "mainstream", 80, ages=(0, 3), layout="homenet", later_layout="vauto", days_to_sell=25),
    Kind("auctions", "mainstream", 90, ages=(3, 9), bulk=0.15),
    Kind("classics", "classic", 40, ages=(40, 65), unpriced=0.15, days_to_sell=120),
    Kind("small", "trucks", 14, ages=(2, 12), days_to_sell=60),
)


@dataclass(frozen=True)
class Car:
    """A unit of the stock. A price of None is asked for on the telephone."""

    vin: str
    stock: str
    year: int
    make: str
    model: str
    trim: str
    color: str
    is_new: bool
    mileage: int
    msrp: int
    price: int | None
    rooftop: int
    since: date


_VALUES = dict(
    zip("ABCDEFGH" + "JKLMN" + "P" + "R" + "STUVWXYZ", [*range(1, 9), *range(1, 6), 7, 9, *range(2, 10)], strict=True)
)
# The tenth character of a VIN is the model year: A is 1980 and 2010.
YEARS = "ABCDEFGHJKLMNPRSTVWXY123456789"
_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def vin_with_check_digit(vin: str) -> str:
    """The VIN with the right ninth character."""
    total = sum((int(c) if c.isdigit() else _VALUES[c]) * weight for c, weight in zip(vin, _WEIGHTS, strict=True))
    return vin[:8] + "0123456789X"[total % 11] + vin[9:]


@dataclass
class Lot:
    """The stock of one dealer, day by day."""

    kind: Kind
    random: random.Random
    cars: list[Car] = field(default_factory=list)
    bought: int = 0

    def fill(self, day: date) -> None:
        """The stock of the first day."""
        while len(self.cars) < self.kind.stock:
            self.cars.append(self.arrival(day - timedelta(days=self.random.randint(3, 80))))

    def arrival(self, day: date) -> Car:
        """A unit that comes in. Its price follows model, trim, age and mileage, as prices of dealers do."""
        rng, kind = self.random, self.kind
        self.bought += 1
        (make, model), (base, trims) = rng.choice(sorted(MODELS[kind.models].items()))
        trim, is_new = rng.choice(trims), rng.random() < kind.share_new
        age = 0 if is_new else rng.randint(*kind.ages)
        msrp = round(base * TRIM_FACTOR.get(trim, 1.0) * rng.uniform(0.95, 1.15))
        mileage = rng.randint(2, 40) if is_new else round(max(300, rng.gauss(11_500, 3_500) * max(age, 0.4)))
        if kind.models == "classic":
            price, mileage = base * TRIM_FACTOR.get(trim, 1.0) * rng.uniform(0.6, 1.7), rng.randint(900, 98_000)
        elif is_new:
            price = msrp * rng.uniform(0.93, 1.02)
        else:
            price = max(1_900, msrp * 0.87**age * rng.uniform(0.85, 1.12))
        year = day.year - age + (is_new and day.month > 8)
        letters = "".join(rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ0123456789") for _ in range(9))
        vin = vin_with_check_digit(f"{letters}{YEARS[year % 30]}A{self.bought:06}")
        return Car(
            vin="" if kind.models == "classic" else vin,
            stock=f"{kind.name[:2].upper()}{self.bought:05}",
            year=year,
            make=make,
            model=model,
            trim=trim,
            color=rng.choice(COLORS),
            is_new=is_new,
            mileage=mileage,
            msrp=msrp if is_new else 0,
            price=None if rng.random() < kind.unpriced else round(price / 5) * 5,
            rooftop=rng.randrange(kind.rooftops),
            since=day,
        )

    def live(self, day: date) -> None:
        """What one day changes. On Sundays and holidays nothing does."""
        rng, kind = self.random, self.kind
        if day.weekday() == 6 or (day.month, day.day) in {(1, 1), (7, 4), (11, 26), (12, 25)}:
            return
        busy = 2.0 if day.weekday() == 5 else 1.0
        self.cars = [car for car in self.cars if rng.random() > busy / kind.days_to_sell]
        if kind.bulk and day.day == 1:
            self.cars = rng.sample(self.cars, round(len(self.cars) * (1 - kind.bulk)))
        wanted = kind.stock - len(self.cars)
        # A dealer buys a few units a day, and now and then a load of a transporter.
        load = 9 if rng.random() < 0.1 else rng.choice((0, 1, 2, 3))
        if kind.bulk and day.day == 10:
            load = round(kind.stock * kind.bulk)
        self.cars += [self.arrival(day) for _ in range(min(max(0, wanted), load))]
        self.cars = [self._changed(car, day) for car in self.cars]

    def _changed(self, car: Car, day: date) -> Car:
        rng = self.random
        if car.price is None:
            # A car gets a price when it is ready for sale.
            return replace(car, price=self.arrival_price(car)) if rng.random() < 0.1 else car
        price = car.price
        if rng.random() < 0.04:
            price = round(price * rng.choice((0.96, 0.98, 0.985, 0.99, 1.01)) / 5) * 5
        if (day - car.since).days in (60, 90):
            price = round(price * rng.uniform(0.88, 0.96) / 5) * 5
        if self.kind.month_end and day.day == 28:
            price = round(price * (1 - self.kind.month_end) / 5) * 5
        mileage = car.mileage + (rng.randint(1, 30) if rng.random() < 0.02 else 0)
        return replace(car, price=max(1_200, price), mileage=mileage)

    def arrival_price(self, car: Car) -> int:
        """The price of a unit that had none."""
        same = [each.price for each in self.cars if each.price and (each.model, each.is_new) == (car.model, car.is_new)]
        return self.random.choice(same) if same else 2_500

    def feed(self, day: date, *, moved: bool) -> bytes:
        """The export of the day, in the layout of its vendor. `moved`: the dealer has a new vendor."""
        layout = LAYOUTS[self.kind.later_layout if moved else self.kind.layout]
        columns: dict[str, str] = {}
        for member, names in layout.columns.items():
            columns.setdefault(member, next((name for name in names if name not in columns.values()), names[0]))
        rows = [{columns[m]: value for m, value in self._cells(car, day).items() if m in columns} for car in self.cars]
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, list(dict.fromkeys(columns.values())))
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue().encode()

    def _cells(self, car: Car, day: date) -> dict[str, str]:
        ready = (day - car.since).days >= 3
        return {
            "vin": car.vin,
            "stock": car.stock,
            "year": str(car.year),
            "make": car.make,
            "model": car.model,
            "trim": car.trim,
            "condition": "New" if car.is_new else "Used",
            "mileage": "TMU" if self.kind.models == "classic" and int(car.stock[-1]) < 3 else str(car.mileage),
            "msrp": str(car.msrp) if car.msrp else "",
            "selling_price": str(car.price) if car.price else "",
            "exterior_color": car.color,
            "body": "Truck" if self.kind.models == "trucks" else "",
            "rooftop_hints": f"Store {car.rooftop + 1}",
            "description": "Clean title, one owner, not a sold-as-is car." if ready else "",
            "photos": "|".join(f"https://photos.example/{car.stock}/{n}.jpg" for n in range(3)) if ready else "",
        }


class Alarm(NamedTuple):
    """A finding about a feed in which nothing is wrong."""

    dealer: str
    day: date
    action: str
    check: str
    sentence: str


def year_of(kind: Kind, days: int = 365, seed: int = 1) -> Iterator[Alarm]:
    """Imports the feeds of a dealer for so many days, and yields what is found."""
    lot = Lot(kind, random.Random(f"{kind.name} {seed}"))
    rooftops = tuple(DealerRooftop(name=f"Store {n + 1}", timezone="America/Chicago") for n in range(kind.rooftops))
    dealer = Profile(id=kind.name, name=kind.name, feed_price="advertised", rooftops=rooftops)
    lot.fill(FIRST_DAY)
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/dealer.db"
        make_current(url)
        with Store.open(url, CIPHER) as store:
            for number in range(days):
                day = FIRST_DAY + timedelta(days=number)
                lot.live(day)
                at = datetime(day.year, day.month, day.day, 9, 30, tzinfo=UTC)
                data = lot.feed(day, moved=number >= 200)
                try:
                    findings = import_feed(store, dealer, read_feed(data), source="feed", at=at).outcome.findings
                except FeedRefused as refusal:
                    findings = refusal.findings
                for finding in findings:
                    yield Alarm(kind.name, day, finding.action, finding.check, finding.sentence)


def main() -> None:
    """Prints the alarms of the whole year of all dealers, and their number by dealer and check."""
    total: Counter[tuple[str, str, str]] = Counter()
    for kind in KINDS:
        for alarm in year_of(kind):
            total[alarm.dealer, alarm.action, alarm.check] += 1
            print(*alarm, sep="\t", file=sys.stderr)
    for key, count in sorted(total.items()):
        print(*key, count, sep="\t")
    print("refused", sum(count for key, count in total.items() if key[1] == "refuse"), sep="\t")
    print("warned", sum(count for key, count in total.items() if key[1] == "warn"), "of", 12 * len(KINDS), sep="\t")


if __name__ == "__main__":
    main()
