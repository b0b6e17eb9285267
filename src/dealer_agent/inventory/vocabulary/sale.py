"""What is for sale and in which state: sale condition and vehicle type (specification, part 2.4). Pure data."""

from dealer_agent.inventory.vocabulary.tables import Table

CONDITION = Table(
    spellings={
        "new": ("brand new", "new vehicle"),
        "used": ("pre owned", "preowned", "second hand", "used vehicle"),
        "cpo": ("certified", "certified pre owned", "certified used", "certified preowned", "manufacturer certified"),
    },
    codes={
        "new": ("n", "newcondition", "https schema org newcondition", "http schema org newcondition", "new car",
                "demo", "0"),
        "used": ("u", "usedcondition", "https schema org usedcondition", "http schema org usedcondition", "used car",
                 "1",
                 "refurbishedcondition", "https schema org refurbishedcondition"),
        "cpo": ("c", "certified pre owned vehicle", "cert", "cp"),
    },
)  # fmt: skip

VEHICLE_TYPE = Table(
    spellings={
        "car": ("cars",),
        "motorcycle": ("motorcycles", "motorbike", "motorbikes", "motorcycle scooter"),
        "trailer": ("trailers", "travel trailer", "utility trailer", "cargo trailer", "horse trailer"),
        "rv": ("rvs", "motorhome", "motor home", "camper", "recreational vehicle", "fifth wheel", "camper van",
               "motorhomes"),
        "other": (),
    },
    codes={
        "car": ("truck", "trucks", "suv", "van", "minivan", "passenger", "automobile", "auto", "passenger car",
                "light truck", "pickup",
                "car truck", "cars trucks", "multipurpose passenger vehicle mpv", "mpv", "sedan", "coupe",
                "crossover", "wagon"),
        "motorcycle": ("scooter", "mc", "bike"),
        "other": ("boat", "watercraft", "personal watercraft", "powersport", "powersports", "atv", "utv",
                  "side by side", "snowmobile",
                  "commercial", "commercial truck", "commercial truck trailer", "heavy truck", "equipment",
                  "boat other"),
    },
)  # fmt: skip
