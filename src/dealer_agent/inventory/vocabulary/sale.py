"""What is for sale and in which state: condition, vehicle type, status (contract, part 6). Pure data."""

from dealer_agent.inventory.vocabulary.tables import Table

CONDITION = Table(
    spellings={
        "new": ("brand new", "new vehicle"),
        "used": ("pre owned", "preowned", "second hand", "used vehicle"),
        "cpo": ("certified", "certified pre owned", "certified used", "certified preowned", "manufacturer certified"),
    },
    codes={
        "new": ("n", "newcondition", "new car", "isnew"),
        "used": ("u", "usedcondition", "used car", "refurbishedcondition", "damagedcondition", "isused"),
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
    patterns=(
        (r"motorcycles?|scooters?|motorbikes?", "motorcycle"),
        (r"motor ?homes?|campers?|rvs?|fifth wheel", "rv"),
        (r"trailers?", "trailer"),
        (r"sport utility|suvs?|pickups?|cars?|trucks?|\w*vans?|crossovers?|cab|wagons?|sedans?|coupes?", "car"),
    ),
)  # fmt: skip

STATUS = Table(
    spellings={
        "available": ("in stock", "active", "for sale", "on lot", "on the lot", "in inventory", "live",
                      "ready for sale"),
        "intransit": ("in transit", "transit", "in production", "on order", "ordered", "preorder", "pre order",
                      "back order",
                      "backorder", "inbound", "factory order", "available soon", "presale", "pre sale", "in build"),
        "pending": ("sale pending", "pending sale", "deal pending", "on hold", "hold", "reserved", "deposit",
                    "deposit taken"),
        "sold": ("sold out", "out of stock", "delivered", "not available", "discontinued", "inactive", "deleted",
                 "removed",
                 "wholesaled", "unavailable", "archived"),
    },
    codes={"available": ("a", "instoreonly", "onlineonly", "limitedavailability", "stock", "retail"),
    "intransit": ("t", "it", "i"),
           "pending": ("p",), "sold": ("s",)},
)  # fmt: skip
"""A listing's status; a row that says sold is no unit for sale."""
