"""Vehicle identification numbers that pass their check (49 CFR 565.15), and belong to nobody. Pure."""

import random

LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
# The model year codes skip I, O, Q, U, Z and the digit 0.
YEAR_CODES = dict(enumerate("ABCDEFGHJKLMNPRSTVWXY", start=2010))
_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ0123456789", "123456781234579234567890123456789", strict=True))
_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def check_digit(vin: str) -> str:
    """The ninth character that 17 characters should have, whatever stands there now."""
    total = sum(weight * int(_VALUES[letter]) for weight, letter in zip(_WEIGHTS, vin, strict=True))
    return "0123456789X"[total % 11]


def made_up_vin(wmi: str, year: int, serial: int, dice: random.Random) -> str:
    """A VIN of the maker and model year (2010 to 2030) with a right check digit; unique as far as the serial is."""
    # The seventh character is a letter for the model years from 2010 on.
    described = (
        "".join(dice.choices(LETTERS, k=2)) + dice.choice("123456") + dice.choice(LETTERS) + dice.choice("123456789")
    )
    vin = f"{wmi}{described}0{YEAR_CODES[year]}{dice.choice(LETTERS)}{serial:06}"
    return vin[:8] + check_digit(vin) + vin[9:]
