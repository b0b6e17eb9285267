"""What the demo's tables of models are made of. Pure types.

The figures are near what the makers publish, to be believable; they are not a source of facts about any vehicle.
"""

from typing import NamedTuple


class Power(NamedTuple):
    """An engine with what hangs on it; the members are the listing's. Several drivelines are alternatives."""

    engine: str
    fuel: str
    transmission: str
    drivelines: tuple[str, ...]
    displacement_cc: int | None = None
    city_mpg: int | None = None
    highway_mpg: int | None = None
    electric_range_mi: int | None = None
    battery_kwh: float | None = None
    motor_power_hp: int | None = None
    charge_port: str | None = None
    dc_fast_charge: bool | None = None


class Line(NamedTuple):
    """A model of some years: `wmi` begins its VINs, `trims` are names with their MSRP new today, in US dollars."""

    make: str
    model: str
    wmi: str
    body: str
    first_year: int
    last_year: int
    trims: tuple[tuple[str, int], ...]
    powers: tuple[Power, ...]
    seats: int = 5


def gas(
    engine: str,
    displacement_cc: int,
    mpg: tuple[int, int],
    *drivelines: str,
    transmission: str = "automatic",
    fuel: str = "gas",
) -> Power:
    """A combustion engine; `mpg` is city and highway."""
    return Power(engine, fuel, transmission, drivelines, displacement_cc, *mpg)


def diesel(engine: str, displacement_cc: int, *drivelines: str) -> Power:
    """A heavy-duty diesel, for which no mileage is published."""
    return Power(engine, "diesel", "automatic", drivelines, displacement_cc)


def hybrid(engine: str, displacement_cc: int, mpg: tuple[int, int], hp: int, *drivelines: str) -> Power:
    """A hybrid that is never plugged in."""
    return Power(engine, "hybrid", "cvt", drivelines, displacement_cc, *mpg, motor_power_hp=hp)


def plug_in(
    engine: str, displacement_cc: int, mpg: tuple[int, int], range_mi: int, kwh: float, hp: int, *drivelines: str
) -> Power:
    """A hybrid that is plugged in, without fast charging."""
    return Power(
        engine, "phev", "automatic", drivelines, displacement_cc, *mpg, range_mi, kwh, hp, "j1772", dc_fast_charge=False
    )


def electric(
    range_mi: int, kwh: float, hp: int, port: str, *drivelines: str, mpg: tuple[int, int], fast: bool = True
) -> Power:
    """A battery and nothing else; `mpg` is the electric equivalent, city and highway."""
    return Power("Electric Motor", "bev", "single_speed", drivelines, None, *mpg, range_mi, kwh, hp, port, fast)


def cycle(engine: str, displacement_cc: int, transmission: str = "manual") -> Power:
    """A motorcycle's engine."""
    return Power(engine, "gas", transmission, (), displacement_cc)
