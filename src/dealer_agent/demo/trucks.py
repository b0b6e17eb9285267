"""The demo's SUVs, pickup trucks and vans. Data."""

from dealer_agent.demo.lines import Line, diesel, gas, hybrid, plug_in

SUVS: tuple[Line, ...] = (
    Line(
        "Toyota", "RAV4", "2T3", "suv", 2026, 2027,
        (("LE", 32_000), ("SE", 34_800), ("XLE Premium", 36_200), ("Limited", 43_300)),
        (hybrid("2.5L I4 Hybrid", 2487, (46, 41), 236, "awd", "fwd"),),
    ),
    Line(
        "Toyota", "RAV4", "2T3", "suv", 2019, 2025,
        (("LE", 29_800), ("XLE", 31_300), ("Limited", 37_600)),
        (gas("2.5L I4", 2487, (27, 35), "fwd", "awd"), hybrid("2.5L I4 Hybrid", 2487, (41, 38), 219, "awd")),
    ),
    Line(
        "Toyota", "RAV4 Plug-In Hybrid", "JTM", "suv", 2021, 2027,
        (("SE", 44_800), ("XSE", 48_700)),
        (plug_in("2.5L I4 Plug-In Hybrid", 2487, (40, 36), 42, 18.1, 302, "awd"),),
    ),
    Line(
        "Toyota", "Highlander", "5TD", "suv", 2023, 2027,
        (("LE", 41_500), ("XLE", 44_500), ("Platinum", 54_000)),
        (
            gas("2.4L I4 Turbo", 2393, (22, 29), "fwd", "awd"),
            hybrid("2.5L I4 Hybrid", 2487, (35, 35), 243, "awd"),
        ),
        seats=7,
    ),
    Line(
        "Toyota", "4Runner", "JTE", "suv", 2025, 2027,
        (("SR5", 43_000), ("TRD Off-Road", 51_600), ("Limited", 57_200)),
        (gas("2.4L I4 Turbo", 2393, (20, 24), "4wd", "rwd"),),
    ),
    Line(
        "Toyota", "4Runner", "JTE", "suv", 2017, 2024,
        (("SR5", 42_000), ("TRD Off-Road", 46_000)),
        (gas("4.0L V6", 3956, (16, 19), "4wd"),),
    ),
    Line(
        "Ford", "Explorer", "1FM", "suv", 2019, 2027,
        (("Active", 41_500), ("ST-Line", 46_000), ("Platinum", 53_500)),
        (gas("2.3L I4 Turbo", 2261, (20, 29), "rwd", "4wd"),),
        seats=7,
    ),
    Line(
        "Ford", "Bronco", "1FM", "suv", 2021, 2027,
        (("Big Bend", 41_500), ("Badlands", 52_400)),
        (
            gas("2.3L I4 Turbo", 2261, (18, 18), "4wd", transmission="manual"),
            gas("2.7L V6 Turbo", 2694, (17, 17), "4wd"),
        ),
    ),
    Line(
        "Ford", "Escape", "1FM", "suv", 2018, 2026,
        (("Active", 31_000), ("ST-Line", 33_000), ("Platinum", 39_900)),
        (gas("1.5L I3 Turbo", 1497, (27, 34), "fwd", "awd"), hybrid("2.5L I4 Hybrid", 2488, (42, 36), 192, "awd")),
    ),
    Line(
        "Hyundai", "Tucson", "5NM", "suv", 2022, 2027,
        (("SE", 30_500), ("SEL", 32_300), ("Limited", 40_100)),
        (gas("2.5L I4", 2497, (25, 32), "fwd", "awd"), hybrid("1.6L I4 Turbo Hybrid", 1598, (35, 35), 231, "awd")),
    ),
    Line(
        "Hyundai", "Tucson Plug-In Hybrid", "KM8", "suv", 2022, 2027,
        (("SEL", 41_200), ("Limited", 48_700)),
        (plug_in("1.6L I4 Turbo Plug-In Hybrid", 1598, (35, 35), 32, 13.8, 268, "awd"),),
    ),
    Line(
        "Hyundai", "Santa Fe", "5NM", "suv", 2024, 2027,
        (("SEL", 38_000), ("XRT", 42_200), ("Calligraphy", 49_500)),
        (
            gas("2.5L I4 Turbo", 2497, (20, 29), "fwd", "awd"),
            hybrid("1.6L I4 Turbo Hybrid", 1598, (36, 35), 231, "awd"),
        ),
        seats=7,
    ),
    Line(
        "Hyundai", "Palisade", "KM8", "suv", 2020, 2027,
        (("SEL", 42_000), ("Limited", 52_500), ("Calligraphy", 56_000)),
        (gas("3.5L V6", 3470, (19, 25), "fwd", "awd"),),
        seats=8,
    ),
    Line(
        "Chevrolet", "Trax", "KL7", "suv", 2024, 2027,
        (("LS", 22_000), ("1RS", 24_600), ("ACTIV", 26_200)),
        (gas("1.2L I3 Turbo", 1199, (28, 32), "fwd"),),
    ),
    Line(
        "Chevrolet", "Equinox", "3GN", "suv", 2018, 2027,
        (("LT", 30_500), ("RS", 35_000), ("ACTIV", 35_000)),
        (gas("1.5L I4 Turbo", 1490, (26, 31), "fwd", "awd"),),
    ),
    Line(
        "Chevrolet", "Traverse", "1GN", "suv", 2024, 2027,
        (("LT", 43_000), ("Z71", 48_900), ("High Country", 56_300)),
        (gas("2.5L I4 Turbo", 2457, (20, 27), "fwd", "awd"),),
        seats=8,
    ),
    Line(
        "Chevrolet", "Tahoe", "1GN", "suv", 2018, 2027,
        (("LT", 67_700), ("Z71", 71_800), ("High Country", 81_600)),
        (gas("5.3L V8", 5328, (15, 20), "rwd", "4wd"),),
        seats=8,
    ),
    Line(
        "Subaru", "Crosstrek", "JF2", "suv", 2021, 2027,
        (("Base", 28_400), ("Premium", 29_600), ("Limited", 33_800), ("Wilderness", 35_500)),
        (gas("2.5L H4", 2498, (26, 33), "awd", transmission="cvt"),),
    ),
    Line(
        "Subaru", "Forester", "JF2", "suv", 2018, 2027,
        (("Premium", 33_500), ("Sport", 35_900), ("Touring", 41_500)),
        (gas("2.5L H4", 2498, (26, 33), "awd", transmission="cvt"),),
    ),
    Line(
        "Subaru", "Forester Hybrid", "JF2", "suv", 2025, 2027,
        (("Premium", 36_500), ("Touring", 43_400)),
        (hybrid("2.5L H4 Hybrid", 2498, (35, 34), 194, "awd"),),
    ),
    Line(
        "Subaru", "Ascent", "4S4", "suv", 2019, 2027,
        (("Premium", 41_500), ("Onyx Edition Touring", 50_000)),
        (gas("2.4L H4 Turbo", 2387, (19, 25), "awd", transmission="cvt"),),
        seats=7,
    ),
    Line(
        "Honda", "CR-V", "7FA", "suv", 2018, 2025,
        (("EX", 33_500), ("EX-L", 36_300), ("Sport Touring", 42_300)),
        (
            gas("1.5L I4 Turbo", 1498, (28, 34), "fwd", "awd", transmission="cvt"),
            hybrid("2.0L I4 Hybrid", 1993, (40, 34), 204, "awd"),
        ),
    ),
    Line(
        "Nissan", "Rogue", "5N1", "suv", 2022, 2025,
        (("S", 30_000), ("SV", 31_800), ("SL", 37_200)),
        (gas("1.5L I3 Turbo", 1477, (29, 36), "fwd", "awd", transmission="cvt"),),
    ),
    Line(
        "Mazda", "CX-5", "JM3", "suv", 2018, 2025,
        (("S Select", 31_500), ("S Premium", 35_400)),
        (gas("2.5L I4", 2488, (26, 31), "awd"),),
    ),
    Line(
        "Jeep", "Wrangler", "1C4", "suv", 2018, 2025,
        (("Sport S", 41_000), ("Rubicon", 53_000)),
        (gas("3.6L V6", 3604, (17, 23), "4wd"), gas("3.6L V6", 3604, (17, 24), "4wd", transmission="manual")),
    ),
    Line(
        "Jeep", "Wrangler 4xe", "1C4", "suv", 2021, 2025,
        (("Sahara", 57_500), ("Rubicon", 62_000)),
        (plug_in("2.0L I4 Turbo Plug-In Hybrid", 1995, (20, 20), 22, 17.3, 375, "4wd"),),
    ),
    Line(
        "Lexus", "RX 350", "2T2", "suv", 2023, 2025,
        (("Base", 51_000), ("Premium", 53_700), ("F Sport", 57_600)),
        (gas("2.4L I4 Turbo", 2393, (22, 29), "fwd", "awd"),),
    ),
    Line(
        "Volvo", "XC60", "YV4", "suv", 2018, 2025,
        (("Core", 48_500), ("Plus", 52_700), ("Ultimate", 57_700)),
        (gas("2.0L I4 Turbo", 1969, (23, 30), "awd"),),
    ),
)  # fmt: skip

TRUCKS: tuple[Line, ...] = (
    Line(
        "Toyota", "Tacoma", "3TY", "truck", 2024, 2027,
        (("SR5", 37_700), ("TRD Sport", 41_000), ("TRD Off-Road", 43_600), ("Limited", 54_000)),
        (gas("2.4L I4 Turbo", 2393, (20, 24), "4wd", "rwd"),),
    ),
    Line(
        "Toyota", "Tacoma", "3TM", "truck", 2018, 2023,
        (("SR5", 36_500), ("TRD Off-Road", 40_500)),
        (gas("3.5L V6", 3456, (18, 22), "4wd"), gas("3.5L V6", 3456, (17, 20), "4wd", transmission="manual")),
    ),
    Line(
        "Toyota", "Tundra", "5TF", "truck", 2022, 2027,
        (("SR5", 48_500), ("Limited", 55_500), ("1794 Edition", 65_700)),
        (gas("3.4L V6 Turbo", 3445, (18, 23), "4wd", "rwd"),),
    ),
    Line(
        "Ford", "F-150", "1FT", "truck", 2018, 2027,
        (("XL", 40_500), ("XLT", 46_800), ("Lariat", 65_000), ("Platinum", 76_000)),
        (
            gas("2.7L V6 Turbo", 2694, (19, 25), "rwd", "4wd"),
            gas("5.0L V8", 5038, (16, 24), "4wd", fuel="flex"),
            gas("3.5L V6 Turbo", 3496, (17, 24), "4wd"),
        ),
    ),
    Line(
        "Ford", "F-250", "1FT", "truck", 2018, 2027,
        (("XLT", 54_500), ("Lariat", 67_000), ("King Ranch", 82_500)),
        (diesel("6.7L V8 Turbo Diesel", 6651, "4wd"), gas("6.8L V8", 6799, (12, 16), "4wd", "rwd")),
    ),
    Line(
        "Ford", "Ranger", "1FT", "truck", 2019, 2027,
        (("XL", 34_500), ("XLT", 37_800), ("Lariat", 45_000)),
        (gas("2.3L I4 Turbo", 2261, (21, 26), "rwd", "4wd"),),
    ),
    Line(
        "Ford", "Maverick", "3FT", "truck", 2022, 2027,
        (("XL", 28_500), ("XLT", 31_000), ("Lariat", 36_500)),
        (hybrid("2.5L I4 Hybrid", 2488, (42, 35), 191, "fwd", "awd"), gas("2.0L I4 Turbo", 1999, (22, 29), "awd")),
    ),
    Line(
        "Ford", "Transit", "1FT", "van", 2018, 2027,
        (("Cargo Van 150", 49_500), ("Cargo Van 250", 52_000)),
        (gas("3.5L V6", 3496, (15, 19), "rwd", "awd"),),
        seats=2,
    ),
    Line(
        "Chevrolet", "Silverado 1500", "1GC", "truck", 2018, 2027,
        (("LT", 50_500), ("RST", 54_000), ("High Country", 66_500)),
        (
            gas("2.7L I4 Turbo", 2727, (18, 20), "rwd", "4wd"),
            gas("5.3L V8", 5328, (16, 20), "4wd"),
            diesel("3.0L I6 Turbo Diesel", 2993, "4wd"),
        ),
    ),
    Line(
        "Chevrolet", "Silverado 2500HD", "1GC", "truck", 2019, 2027,
        (("LT", 57_500), ("LTZ", 66_000), ("High Country", 76_500)),
        (diesel("6.6L V8 Turbo Diesel", 6599, "4wd"), gas("6.6L V8", 6599, (13, 17), "4wd")),
    ),
    Line(
        "Chevrolet", "Colorado", "1GC", "truck", 2023, 2027,
        (("LT", 36_500), ("Trail Boss", 40_500), ("Z71", 44_500)),
        (gas("2.7L I4 Turbo", 2727, (19, 24), "rwd", "4wd"),),
    ),
    Line(
        "GMC", "Sierra 1500", "1GT", "truck", 2018, 2025,
        (("SLE", 52_500), ("Elevation", 54_500), ("Denali", 69_000)),
        (gas("5.3L V8", 5328, (16, 20), "4wd"),),
    ),
    Line(
        "Ram", "1500", "1C6", "truck", 2019, 2025,
        (("Big Horn", 48_500), ("Laramie", 62_000), ("Rebel", 65_000)),
        (gas("3.6L V6", 3604, (20, 25), "rwd", "4wd"), gas("5.7L V8", 5654, (17, 22), "4wd")),
    ),
    Line(
        "Ram", "2500", "3C6", "truck", 2018, 2025,
        (("Tradesman", 50_500), ("Laramie", 68_000)),
        (diesel("6.7L I6 Turbo Diesel", 6690, "4wd"), gas("6.4L V8", 6417, (12, 16), "4wd")),
    ),
    Line(
        "Nissan", "Frontier", "1N6", "truck", 2022, 2025,
        (("SV", 37_000), ("PRO-4X", 42_500)),
        (gas("3.8L V6", 3799, (19, 24), "rwd", "4wd"),),
    ),
)  # fmt: skip
