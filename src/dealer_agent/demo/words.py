"""The demo's colours, equipment and sentences. Data."""

PAINTS: dict[str, tuple[str, ...]] = {
    "Toyota": (
        "Ice Cap",
        "Midnight Black Metallic",
        "Celestial Silver Metallic",
        "Supersonic Red",
        "Reservoir Blue",
        "Army Green",
    ),
    "Ford": (
        "Oxford White",
        "Agate Black Metallic",
        "Carbonized Gray Metallic",
        "Race Red",
        "Atlas Blue Metallic",
        "Iconic Silver",
    ),
    "Hyundai": (
        "Serenity White",
        "Abyss Black",
        "Amazon Gray",
        "Ultimate Red",
        "Transmission Blue",
        "Shimmering Silver",
    ),
    "Chevrolet": (
        "Summit White",
        "Black",
        "Sterling Gray Metallic",
        "Radiant Red Tintcoat",
        "Glacier Blue Metallic",
        "Cypress Gray",
    ),
    "Subaru": (
        "Crystal White Pearl",
        "Crystal Black Silica",
        "Magnetite Gray Metallic",
        "Pure Red",
        "Sapphire Blue Pearl",
        "Autumn Green Metallic",
    ),
    "Honda": (
        "Platinum White Pearl",
        "Crystal Black Pearl",
        "Lunar Silver Metallic",
        "Rallye Red",
        "Canyon River Blue Metallic",
    ),
    "Yamaha": ("Team Yamaha Blue", "Matte Raven Black", "Intensity White", "Redline"),
    "Kawasaki": ("Lime Green", "Metallic Spark Black", "Pearl Robotic White", "Candy Persimmon Red"),
    "BMW": ("Alpine White", "Black Sapphire Metallic", "Mineral Gray Metallic", "Portimao Blue Metallic"),
    "Mazda": ("Snowflake White Pearl", "Jet Black Mica", "Machine Gray Metallic", "Soul Red Crystal Metallic"),
    "Volkswagen": ("Pure White", "Deep Black Pearl", "Moonstone Gray", "Kings Red Metallic"),
    "Tesla": (
        "Pearl White Multi-Coat",
        "Solid Black",
        "Midnight Silver Metallic",
        "Deep Blue Metallic",
        "Red Multi-Coat",
    ),
    "Jeep": ("Bright White", "Black", "Granite Crystal Metallic", "Firecracker Red", "Sarge Green", "Hydro Blue Pearl"),
    "Nissan": ("Glacier White", "Super Black", "Gun Metallic", "Scarlet Ember Tintcoat", "Deep Blue Pearl"),
    "Harley-Davidson": ("Vivid Black", "Redline Red", "Billiard Gray", "Whiskey Fire"),
}
"""By make; a make that is not here wears a plain colour."""

PLAIN_PAINTS = ("White", "Black", "Silver Metallic", "Gray Metallic", "Blue Metallic", "Red Metallic", "Dark Green")

INTERIORS = ("Black", "Black", "Charcoal", "Light Gray", "Ash", "Beige", "Saddle Brown", "Macchiato")

CAR_FEATURES = (
    "Adaptive Cruise Control", "Android Auto", "Apple CarPlay", "Automatic Emergency Braking", "Automatic High Beams",
    "Backup Camera", "Blind Spot Monitor", "Bluetooth", "Heated Front Seats", "Keyless Entry", "Lane Keeping Assist",
    "LED Headlights", "Power Driver Seat", "Push Button Start", "Rear Cross Traffic Alert", "Remote Start",
    "Satellite Radio", "Split Folding Rear Seat", "USB-C Charging Ports", "Wireless Phone Charger", "Wi-Fi Hotspot",
)  # fmt: skip
LUXURY_FEATURES = (
    "Ambient Lighting", "Digital Instrument Cluster", "Head-Up Display", "Heated Steering Wheel", "Leather Seats",
    "Memory Driver Seat", "Navigation System", "Panoramic Sunroof", "Power Liftgate", "Premium Audio System",
    "Surround View Camera", "Tri-Zone Climate Control", "Ventilated Front Seats",
)  # fmt: skip
TRUCK_FEATURES = (
    "Bed Liner", "Class IV Hitch", "Crew Cab", "Integrated Trailer Brake Controller", "Locking Rear Differential",
    "Running Boards", "Skid Plates", "Tonneau Cover", "Tow Package", "Trailer Camera", "120V Bed Outlet",
)  # fmt: skip
FAMILY_FEATURES = (
    "Third Row Seating",
    "Captain's Chairs",
    "Rear Entertainment Ready",
    "Roof Rails",
    "Hands-Free Liftgate",
)
ELECTRIC_FEATURES = ("Heat Pump", "One-Pedal Driving", "Level 2 Mobile Charger", "Preconditioning", "Frunk")
CYCLE_FEATURES = (
    "Anti-Lock Brakes", "Cruise Control", "Heated Grips", "LED Lighting", "Quickshifter", "Saddlebags",
    "Slipper Clutch", "TFT Display", "Traction Control", "USB Outlet", "Windscreen", "Ride Modes", "Center Stand",
)  # fmt: skip
SCOOTER_FEATURES = (
    "Anti-Lock Brakes", "LED Lighting", "Smart Key", "Top Case", "Under-Seat Storage", "USB Outlet", "Windscreen",
)  # fmt: skip

OPENINGS: dict[str, tuple[str, ...]] = {
    "new": (
        "This {year} {make} {model} {trim} is new and waiting for its first owner.",
        "Here is a new {year} {model} {trim} in {color}.",
        "A factory-new {model} {trim} with its full {make} warranty.",
        "{color} suits the new {year} {model} {trim}.",
    ),
    "cpo": (
        "This certified pre-owned {year} {make} {model} passed the maker's full inspection.",
        "A certified {model} {trim} with {mileage} miles and a warranty that the maker stands behind.",
        "Nearly new in everything but price: a certified {year} {model} {trim}.",
    ),
    "used": (
        "This {year} {make} {model} {trim} shows {mileage} miles and a clean title.",
        "A well-kept {model} {trim} that came to us in trade here in {city}.",
        "Here is a {year} {make} {model} in {color} for sensible money.",
        "This {model} has gone {mileage} miles, and our own shop looked it over before it went on the lot.",
    ),
}
POWER_SENTENCES: dict[str, tuple[str, ...]] = {
    "bev": (
        "It goes up to {range} miles on a charge and starts each morning full if you charge at home.",
        "Its {battery} kWh battery is rated for {range} miles.",
    ),
    "phev": (
        "Plug it in and the first {range} miles need no gasoline; after that it is a hybrid.",
        "It drives {range} miles on electricity before its engine wakes.",
    ),
    "hybrid": (
        "The hybrid returns {mpg} mpg in the city and never needs a plug.",
        "Its {engine} is quiet in town and rated at {mpg} mpg there.",
    ),
    "diesel": ("The {engine} pulls like a train.", "Under the hood sits the {engine}."),
    "gas": (
        "Its {engine} is the one to have.",
        "The {engine} is smooth, and there is plenty of it.",
        "Power comes from the {engine}.",
    ),
    "flex": ("Its {engine} runs on gasoline and E85 alike.",),
}
FEATURE_SENTENCES = (
    "You also get {first} and {second}.",
    "Among its equipment are {first} and {second}.",
    "{first} and {second} make the drive to work shorter than it is.",
    "It comes with {first}, and with {second} besides.",
)
CLOSINGS = (
    "Ask us for a walk-around video.",
    "Come and see it, any day but Sunday.",
    "We will give you a firm figure for your trade.",
    "We deliver within 100 miles at no charge.",
)
USED_CLOSINGS = (
    *CLOSINGS,
    "Two keys and the manuals are with it.",
    "Ask for the history report; it is free.",
    "Tires and brakes have plenty of life left.",
)
TRANSIT_SENTENCES = (
    "It is on its way to us and can be reserved now.",
    "It has left the factory and is expected within three weeks.",
)
