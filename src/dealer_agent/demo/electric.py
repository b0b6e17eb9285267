"""The demo's battery-electric cars and trucks. Data."""

from dealer_agent.demo.lines import Line, electric

ELECTRIC: tuple[Line, ...] = (
    Line(
        "Ford", "Mustang Mach-E", "3FM", "suv", 2021, 2027,
        (("Select", 39_900), ("Premium", 43_000)),
        (
            electric(250, 73.0, 264, "ccs", "rwd", mpg=(113, 97)),
            electric(300, 88.0, 370, "ccs", "awd", mpg=(101, 92)),
        ),
    ),
    Line(
        "Ford", "Mustang Mach-E", "3FM", "suv", 2021, 2027,
        (("GT", 55_000),),
        (electric(280, 91.0, 480, "ccs", "awd", mpg=(96, 84)),),
    ),
    Line(
        "Ford", "F-150 Lightning", "1FT", "truck", 2022, 2025,
        (("XLT", 65_000), ("Flash", 70_000), ("Platinum", 86_000)),
        (electric(240, 98.0, 452, "ccs", "4wd", mpg=(78, 63)), electric(320, 131.0, 580, "ccs", "4wd", mpg=(76, 61))),
    ),
    Line(
        "Hyundai", "Ioniq 5", "7YA", "suv", 2025, 2027,
        (("SE", 44_200), ("SEL", 49_600), ("Limited", 54_300), ("XRT", 55_500)),
        (
            electric(318, 84.0, 225, "nacs", "rwd", mpg=(127, 100)),
            electric(269, 84.0, 320, "nacs", "awd", mpg=(110, 92)),
        ),
    ),
    Line(
        "Hyundai", "Ioniq 5", "KM8", "suv", 2022, 2024,
        (("SE", 47_000), ("SEL", 49_000), ("Limited", 54_000)),
        (electric(303, 77.4, 225, "ccs", "rwd", mpg=(132, 98)), electric(260, 77.4, 320, "ccs", "awd", mpg=(113, 90))),
    ),
    Line(
        "Hyundai", "Ioniq 6", "KMH", "sedan", 2023, 2025,
        (("SE", 44_000), ("SEL", 47_000), ("Limited", 51_500)),
        (
            electric(342, 77.4, 225, "ccs", "rwd", mpg=(153, 127)),
            electric(316, 77.4, 320, "ccs", "awd", mpg=(134, 108)),
        ),
    ),
    Line(
        "Hyundai", "Kona Electric", "KM8", "suv", 2024, 2026,
        (("SE", 34_500), ("SEL", 38_200), ("Limited", 42_700)),
        (electric(261, 64.8, 201, "ccs", "fwd", mpg=(129, 103)),),
    ),
    Line(
        "Chevrolet", "Equinox EV", "3GN", "suv", 2024, 2027,
        (("LT", 36_500), ("RS", 42_500)),
        (electric(319, 85.0, 220, "ccs", "fwd", mpg=(117, 100)), electric(307, 85.0, 300, "ccs", "awd", mpg=(104, 90))),
    ),
    Line(
        "Chevrolet", "Blazer EV", "3GN", "suv", 2024, 2027,
        (("LT", 46_000), ("RS", 51_000), ("SS", 62_000)),
        (electric(312, 85.0, 220, "ccs", "fwd", mpg=(110, 90)), electric(283, 85.0, 300, "ccs", "awd", mpg=(103, 88))),
    ),
    Line(
        "Chevrolet", "Bolt EUV", "1G1", "hatchback", 2022, 2023,
        (("LT", 29_000), ("Premier", 33_000)),
        (electric(247, 65.0, 200, "ccs", "fwd", mpg=(125, 104)),),
    ),
    Line(
        "Subaru", "Solterra", "JTM", "suv", 2023, 2026,
        (("Premium", 40_000), ("Limited", 44_000), ("Touring", 47_000)),
        (electric(285, 74.7, 233, "nacs", "awd", mpg=(114, 94)),),
    ),
    Line(
        "Tesla", "Model 3", "5YJ", "sedan", 2018, 2025,
        (("Long Range", 47_500), ("Performance", 55_000)),
        (electric(341, 79.0, 394, "nacs", "awd", mpg=(136, 125)),),
    ),
    Line(
        "Tesla", "Model 3", "5YJ", "sedan", 2019, 2022,
        (("Standard Range Plus", 39_000),),
        (electric(263, 55.0, 271, "nacs", "rwd", mpg=(150, 133)),),
    ),
    Line(
        "Tesla", "Model Y", "7SA", "suv", 2021, 2025,
        (("Long Range", 49_000), ("Performance", 54_500)),
        (electric(311, 79.0, 384, "nacs", "awd", mpg=(121, 112)),),
    ),
    Line(
        "Nissan", "Leaf", "1N4", "hatchback", 2018, 2024,
        (("SV", 31_300),),
        (electric(149, 40.0, 147, "chademo", "fwd", mpg=(123, 99)),),
    ),
    Line(
        "Nissan", "Leaf", "1N4", "hatchback", 2019, 2024,
        (("SV Plus", 37_300),),
        (electric(212, 60.0, 214, "chademo", "fwd", mpg=(121, 98)),),
    ),
    Line(
        "Volkswagen", "ID.4", "1V2", "suv", 2021, 2024,
        (("Standard", 41_000), ("Pro S", 51_000)),
        (electric(263, 77.0, 201, "ccs", "rwd", mpg=(115, 98)), electric(255, 77.0, 330, "ccs", "awd", mpg=(108, 96))),
    ),
    Line(
        "Kia", "EV6", "KND", "suv", 2022, 2024,
        (("Wind", 50_500), ("GT-Line", 54_500)),
        (electric(310, 77.4, 225, "ccs", "rwd", mpg=(134, 101)), electric(282, 77.4, 320, "ccs", "awd", mpg=(120, 98))),
    ),
)  # fmt: skip
