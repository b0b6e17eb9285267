"""The demo's sedans, hatchbacks, coupes, convertibles, wagons and minivans. Data."""

from dealer_agent.demo.lines import Line, gas, hybrid, plug_in

CARS: tuple[Line, ...] = (
    Line(
        "Toyota", "Camry", "4T1", "sedan", 2025, 2027,
        (("LE", 30_000), ("SE", 32_300), ("XLE", 35_500), ("XSE", 36_700)),
        (hybrid("2.5L I4 Hybrid", 2487, (48, 47), 225, "fwd", "awd"),),
    ),
    Line(
        "Toyota", "Camry", "4T1", "sedan", 2018, 2024,
        (("LE", 28_000), ("SE", 29_500)),
        (gas("2.5L I4", 2487, (28, 39), "fwd"),),
    ),
    Line(
        "Toyota", "Camry", "4T1", "sedan", 2020, 2024,
        (("XSE", 36_700), ("TRD", 36_200)),
        (gas("3.5L V6", 3456, (22, 32), "fwd"),),
    ),
    Line(
        "Toyota", "Corolla", "5YF", "sedan", 2020, 2027,
        (("LE", 23_900), ("SE", 26_400), ("XSE", 29_100)),
        (
            gas("2.0L I4", 1987, (32, 41), "fwd", transmission="cvt"),
            hybrid("1.8L I4 Hybrid", 1798, (50, 43), 138, "fwd", "awd"),
        ),
    ),
    Line(
        "Toyota", "Corolla Hatchback", "JTN", "hatchback", 2019, 2027,
        (("SE", 25_400), ("XSE", 28_500)),
        (gas("2.0L I4", 1987, (31, 40), "fwd", transmission="cvt"),),
    ),
    Line(
        "Toyota", "Prius", "JTD", "hatchback", 2023, 2027,
        (("LE", 29_700), ("XLE", 33_200), ("Limited", 36_900)),
        (hybrid("2.0L I4 Hybrid", 1987, (57, 56), 194, "fwd", "awd"),),
    ),
    Line(
        "Toyota", "Sienna", "5TD", "minivan", 2021, 2027,
        (("LE", 41_000), ("XLE", 46_200), ("Limited", 53_700)),
        (hybrid("2.5L I4 Hybrid", 2487, (36, 36), 245, "fwd", "awd"),),
        seats=8,
    ),
    Line(
        "Ford", "Mustang", "1FA", "coupe", 2018, 2027,
        (("EcoBoost", 33_900), ("EcoBoost Premium", 39_300)),
        (gas("2.3L I4 Turbo", 2261, (22, 33), "rwd"),),
        seats=4,
    ),
    Line(
        "Ford", "Mustang", "1FA", "coupe", 2018, 2027,
        (("GT", 48_400), ("GT Premium", 53_000)),
        (gas("5.0L V8", 5038, (15, 24), "rwd", transmission="manual"), gas("5.0L V8", 5038, (15, 24), "rwd")),
        seats=4,
    ),
    Line(
        "Ford", "Mustang", "1FA", "convertible", 2018, 2027,
        (("EcoBoost Premium", 44_800),),
        (gas("2.3L I4 Turbo", 2261, (21, 31), "rwd"),),
        seats=4,
    ),
    Line(
        "Ford", "Fusion", "3FA", "sedan", 2017, 2020,
        (("SE", 26_500), ("SEL", 30_000), ("Titanium", 36_000)),
        (
            gas("1.5L I4 Turbo", 1498, (23, 34), "fwd"),
            hybrid("2.0L I4 Hybrid", 1999, (43, 41), 188, "fwd"),
        ),
    ),
    Line(
        "Hyundai", "Elantra", "KMH", "sedan", 2021, 2027,
        (("SE", 23_500), ("SEL Sport", 24_800), ("Limited", 28_600)),
        (
            gas("2.0L I4", 1999, (32, 41), "fwd", transmission="cvt"),
            hybrid("1.6L I4 Hybrid", 1580, (51, 58), 139, "fwd"),
        ),
    ),
    Line(
        "Hyundai", "Elantra N", "KMH", "sedan", 2022, 2027,
        (("N", 35_900),),
        (
            gas("2.0L I4 Turbo", 1998, (20, 27), "fwd", transmission="dct"),
            gas("2.0L I4 Turbo", 1998, (21, 29), "fwd", transmission="manual"),
        ),
    ),
    Line(
        "Hyundai", "Sonata", "KMH", "sedan", 2020, 2027,
        (("SEL", 29_800), ("N Line", 36_600), ("Limited", 38_900)),
        (gas("2.5L I4", 2497, (25, 36), "fwd", "awd"), hybrid("2.0L I4 Hybrid", 1999, (44, 51), 192, "fwd")),
    ),
    Line(
        "Chevrolet", "Malibu", "1G1", "sedan", 2018, 2025,
        (("LS", 25_800), ("RS", 27_000), ("LT", 29_000)),
        (gas("1.5L I4 Turbo", 1490, (27, 35), "fwd", transmission="cvt"),),
    ),
    Line(
        "Chevrolet", "Corvette", "1G1", "coupe", 2020, 2027,
        (("Stingray 1LT", 71_000), ("Stingray 3LT", 83_000)),
        (gas("6.2L V8", 6162, (16, 25), "rwd", transmission="dct"),),
        seats=2,
    ),
    Line(
        "Subaru", "BRZ", "JF1", "coupe", 2022, 2027,
        (("Premium", 33_200), ("Limited", 35_800), ("tS", 38_100)),
        (
            gas("2.4L H4", 2387, (20, 27), "rwd", transmission="manual"),
            gas("2.4L H4", 2387, (21, 30), "rwd"),
        ),
        seats=4,
    ),
    Line(
        "Subaru", "Impreza", "JF1", "hatchback", 2019, 2027,
        (("Base", 24_800), ("Sport", 27_100), ("RS", 29_800)),
        (gas("2.0L H4", 1995, (27, 34), "awd", transmission="cvt"),),
    ),
    Line(
        "Subaru", "Outback", "4S4", "wagon", 2018, 2025,
        (("Premium", 33_500), ("Limited", 38_600)),
        (gas("2.5L H4", 2498, (26, 32), "awd", transmission="cvt"),),
    ),
    Line(
        "Subaru", "Outback", "4S4", "wagon", 2022, 2025,
        (("Onyx Edition XT", 40_900), ("Wilderness", 41_200)),
        (gas("2.4L H4 Turbo", 2387, (22, 29), "awd", transmission="cvt"),),
    ),
    Line(
        "Honda", "Civic", "2HG", "sedan", 2019, 2025,
        (("LX", 25_400), ("Sport", 27_400), ("Touring", 32_000)),
        (gas("2.0L I4", 1996, (31, 40), "fwd", transmission="cvt"),),
    ),
    Line(
        "Honda", "Accord", "1HG", "sedan", 2018, 2025,
        (("LX", 29_500), ("Sport", 33_900), ("Touring", 40_300)),
        (
            gas("1.5L I4 Turbo", 1498, (29, 37), "fwd", transmission="cvt"),
            hybrid("2.0L I4 Hybrid", 1993, (46, 41), 204, "fwd"),
        ),
    ),
    Line(
        "Honda", "Odyssey", "5FN", "minivan", 2018, 2025,
        (("EX-L", 44_300), ("Touring", 48_000)),
        (gas("3.5L V6", 3471, (19, 28), "fwd"),),
        seats=8,
    ),
    Line(
        "Mazda", "MX-5 Miata", "JM1", "convertible", 2017, 2025,
        (("Sport", 30_500), ("Club", 33_900), ("Grand Touring", 35_600)),
        (gas("2.0L I4", 1998, (26, 34), "rwd", transmission="manual"), gas("2.0L I4", 1998, (26, 35), "rwd")),
        seats=2,
    ),
    Line(
        "Volkswagen", "Golf GTI", "WVW", "hatchback", 2018, 2024,
        (("S", 33_400), ("SE", 38_000), ("Autobahn", 41_700)),
        (
            gas("2.0L I4 Turbo", 1984, (24, 33), "fwd", transmission="dct"),
            gas("2.0L I4 Turbo", 1984, (24, 34), "fwd", transmission="manual"),
        ),
    ),
    Line(
        "BMW", "330i", "3MW", "sedan", 2019, 2025,
        (("xDrive", 48_700),),
        (gas("2.0L I4 Turbo", 1998, (25, 34), "awd"),),
    ),
    Line(
        "BMW", "330e", "3MW", "sedan", 2021, 2024,
        (("Base", 47_700),),
        (plug_in("2.0L I4 Plug-In Hybrid", 1998, (25, 33), 22, 12.0, 288, "rwd"),),
    ),
    Line(
        "Mercedes-Benz", "C 300", "W1K", "sedan", 2019, 2025,
        (("4MATIC", 51_600),),
        (gas("2.0L I4 Turbo", 1999, (23, 33), "awd"),),
    ),
    Line(
        "Audi", "A4", "WAU", "sedan", 2018, 2025,
        (("Premium", 44_600), ("Premium Plus", 48_600)),
        (gas("2.0L I4 Turbo", 1984, (24, 32), "awd", transmission="dct"),),
    ),
)  # fmt: skip
