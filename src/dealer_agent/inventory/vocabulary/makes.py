"""Makes as their makers spell them, for the US market, cars and motorcycles (contract, part 6). Pure data."""

from dealer_agent.inventory.vocabulary.tables import Table

MAKE = Table(
    spellings={
        # Cars and light trucks on sale
        "Acura": (), "Alfa Romeo": ("alfa",), "Aston Martin": ("aston",), "Audi": (), "Bentley": (),
                  "BMW": ("bimmer", "beemer"),
        "Bugatti": (), "Buick": (), "Cadillac": ("caddy", "cadi"), "Chevrolet": ("chevy", "chev", "chevrolet truck",
                    "chevy truck"),
        "Chrysler": (), "Dodge": (), "Ferrari": (), "Fiat": ("fiat abarth",), "Fisker": (), "Ford": ("ford truck",),
        "Genesis": (), "GMC": ("gmc truck",), "Honda": (), "Hyundai": ("hyundia", "hundai"),
                    "INEOS": ("ineos automotive", "ineos grenadier"),
        "INFINITI": (), "Isuzu": (), "Jaguar": ("jag",), "Jeep": (), "Karma": (), "Kia": ("kia motors",),
                     "Koenigsegg": (),
        "Lamborghini": ("lambo",), "Land Rover": ("range rover land rover",), "Lexus": (),
                        "Lincoln": ("lincoln mercury",),
        "Lotus": (), "Lucid": ("lucid motors", "lucid air"), "Maserati": (), "Maybach": (), "Mazda": (),
                  "McLaren": (),
        "Mercedes-Benz": ("mercedes", "merc", "mercedez", "mercedez benz", "mercedes amg", "mercedes maybach",
                          "benz"),
        "MINI": ("mini cooper",), "Mitsubishi": (), "Nissan": ("nissan truck",), "Pagani": (), "Polestar": (),
                 "Porsche": (),
        "Ram": ("ram truck", "ram trucks", "dodge ram"), "Rimac": (), "Rivian": ("rivian automotive",),
                "Rolls-Royce": ("rolls",),
        "Scout": ("scout motors",), "smart": ("smart car",), "Subaru": ("subie",), "Tesla": ("tesla motors",),
                  "Toyota": (),
        "VinFast": (), "Volkswagen": ("vw", "volkswagon", "volks wagen"), "Volvo": (),
        # Gone, but on used lots
        "AM General": (), "AMC": ("american motors",), "Austin-Healey": (), "Daewoo": (), "Datsun": (),
                       "DeLorean": (), "DeSoto": (),
        "Eagle": (), "Geo": (), "HUMMER": (), "Mercury": (), "MG": (), "Oldsmobile": ("olds",), "Packard": (),
                  "Panoz": (), "Peugeot": (),
        "Plymouth": (), "Pontiac": (), "Saab": (), "Saleen": (), "Saturn": (), "Scion": (), "Shelby": (),
                     "Spyker": (), "Studebaker": (),
        "Suzuki": (), "Triumph": (), "Willys": ("willys overland",), "International": ("international harvester",),
        # Commercial
        "Freightliner": (), "Hino": (), "Kenworth": (), "Mack": (), "Peterbilt": (), "Western Star": (),
                         "BrightDrop": (),
        # Motorcycles and powersports
        "Aprilia": (), "Arctic Cat": (), "Benelli": (), "Beta": (), "BSA": (), "Buell": (), "Can-Am": (),
                    "CFMOTO": ("cf moto",),
        "Ducati": (), "Energica": (), "GASGAS": (), "Genuine Scooter": (), "Harley-Davidson": ("harley",),
                   "Husqvarna": (),
        "Indian": ("indian motorcycle", "indian motorcycles"), "Kawasaki": (), "KTM": (), "Kymco": (),
                   "LiveWire": (), "Moto Guzzi": (),
        "Moto Morini": (), "MV Agusta": (), "Norton": (), "Piaggio": (), "Polaris": (), "Royal Enfield": (),
                        "Sea-Doo": (), "Sherco": (),
        "Ski-Doo": (), "Slingshot": ("polaris slingshot",), "SSR": (), "SYM": (), "Ural": (), "Vespa": (),
                    "Victory": (),
        "Yamaha": (), "Zero": ("zero motorcycles",),
        # Trailers and RVs
        "Airstream": (), "Big Tex": (), "Coachmen": (), "Forest River": (), "Grand Design": (), "Jayco": (),
                      "Keystone": (),
        "Thor": ("thor motor coach",), "Tiffin": (), "Winnebago": (),
    },
    codes={"Mercedes-Benz": ("mb",), "Land Rover": ("range rover", "rover"), "Harley-Davidson": ("hd",),
    "Cadillac": ("cad",),
           "Genesis": ("genesis motor",), "Volkswagen": ("volks",), "Rolls-Royce": ("rr",), "Toyota": ("toy",)},
)  # fmt: skip
