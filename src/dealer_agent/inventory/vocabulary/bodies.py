"""Body styles of cars and of motorcycles (contract, part 6). Pure data."""

from dealer_agent.inventory.vocabulary.tables import Table

_CABS = (
    "crew cab", "extended cab", "ext cab", "quad cab", "mega cab", "double cab", "access cab", "king cab",
    "regular cab", "reg cab",
    "super cab", "supercab", "super crew", "supercrew", "super crew cab", "supercrew cab", "crewmax", "crew max",
    "crewmax cab",
    "club cab", "xtra cab", "xtracab", "single cab", "standard cab", "cab chassis", "chassis cab",
)  # fmt: skip

BODY = Table(
    spellings={
        "sedan": ("sedans", "saloon", "4dr car", "4 door car", "4 door sedan"),
        "suv": ("suvs", "sport utility", "sport utilities", "sport utility vehicle", "sport utility vehicles",
                "crossover",
                "crossovers", "crossover utility vehicle", "crossover suv", "cuv", "sports activity vehicle", "sav"),
        "truck": ("trucks", "pickup", "pickups", "pickup truck", "pickup trucks", "pick up truck",
                  "sport utility truck", *_CABS,
                  *(f"{cab} pickup" for cab in _CABS)),
        "coupe": ("coupes", "2dr car", "2 door car", "2 door coupe", "fastback"),
        "hatchback": ("hatchbacks", "hatch", "liftback", "5 door hatchback", "3 door hatchback"),
        "wagon": ("wagons", "station wagon", "station wagons", "estate", "sport wagon", "sportwagen"),
        "convertible": ("convertibles", "cabriolet", "cabrio", "roadster", "drop top", "soft top convertible"),
        "minivan": ("minivans", "mini van", "mini vans", "mini van passenger", "minivan passenger", "mini van cargo"),
        "van": ("vans", "cargo van", "cargo vans", "passenger van", "passenger vans", "full size van", "crew van",
                "cargo"),
        "cruiser": ("cruisers", "cruiser motorcycle"),
        "sport": ("sport bike", "sport bikes", "sportbike", "sportbikes", "supersport", "super sport", "superbike"),
        "touring": ("tourer", "touring bike", "touring motorcycle", "bagger", "grand touring motorcycle",
                    "sport touring motorcycle"),
        "adventure": ("adventure bike", "adventure touring", "adventure motorcycle", "dual sport", "dual purpose"),
        "standard": ("naked bike", "standard motorcycle", "standard bike"),
        "scooter": ("scooters", "moped", "mopeds"),
    },
    codes={
        "sedan": ("4d", "gran coupe", "notchback", "4dr"),
        "suv": ("utility", "mpv suv", "sac", "sports activity coupe"),
        "truck": ("cab", "trk", "crew", "pu"),
        "coupe": ("2d", "2dr", "cpe"),
        "hatchback": ("sportback", "5dr", "hb"),
        "wagon": ("avant", "wgn"),
        "convertible": ("spyder", "spider", "targa", "conv", "open body"),
        "van": ("passenger wagon", "cutaway", "cutaway van", "step van"),
        "touring": ("sport touring", "dresser"),
        "adventure": ("adv",),
        "standard": ("naked",),
    },
    patterns=(
        (r"mini ?vans?", "minivan"),
        (r"\w* ?cab|supercrew|super crew|crew ?max|pick ?ups?|\w*truck|short bed|long bed|chassis", "truck"),
        (r"\w*vans?|passenger wagon|cutaway", "van"),
        (r"sports? utility|suvs?|crossover|cuv|sports? activity|utility", "suv"),
        (r"convertible|cabriolet|cabrio|roadster|spyder|spider|soft ?top", "convertible"),
        (r"wagon|estate|sportwagen|avant", "wagon"),
        (r"hatchback|hatch|liftback|sportback", "hatchback"),
        (r"gran coupe|sedan|saloon|(?:4 ?dr|4 ?doors?|4d) car", "sedan"),
        (r"coupe|fastback|(?:2 ?dr|2 ?doors?|2d) car", "coupe"),
        (r"cruiser", "cruiser"),
        (r"sport ?bike|super ?sport|super ?bike", "sport"),
        (r"scooter|moped", "scooter"),
    ),
)  # fmt: skip
