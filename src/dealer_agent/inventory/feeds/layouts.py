"""The layouts of inventory feeds: which column tells which field. Pure data.

A column's name is compared without case, spaces and punctuation. In JSON a column is the path of a member:
`offers.price`, `images.uri` of every image. Fields are those of `Unit`, and these, which several columns
together tell: `certified`, `is_used`, `is_new`, `mileage_unit`, `displacement_litres`, `displacement_cubic_inches`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dealer_agent.inventory.vocabulary import fold

Kind = Literal["delimited", "json"]


@dataclass(frozen=True)
class Layout:
    """How one system writes its export.

    `columns` name a field's columns, best first. `joined` fields put the texts of all their columns behind one another.
    `patterns` are searched where no name fits (`image[0].url`). `strangers` are columns that mean something else here
    than their name says, and are not read. `positions` are the columns of a file without a header.
    """

    name: str
    kinds: tuple[Kind, ...]
    columns: Mapping[str, tuple[str, ...]]
    joined: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, str], ...] = ()
    strangers: frozenset[str] = frozenset()
    positions: tuple[str, ...] = ()
    fuel_inside_engine: bool = False
    passes_extras: bool = False
    folded: Mapping[str, tuple[str, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        folded = {name: tuple(fold(column) for column in columns) for name, columns in self.columns.items()}
        object.__setattr__(self, "folded", folded)


_IDENTITY = {"vin": ("vin",), "year": ("year",), "make": ("make",), "model": ("model",), "trim": ("trim",)}

CANONICAL = Layout(
    name="canonical",
    kinds=("delimited", "json"),
    columns=_IDENTITY
    | {
        name: (name,)
        for name in (
            *("stock", "vehicle_id", "vehicle_type", "condition", "status", "list_price", "msrp", "mileage", "body"),
            *("transmission", "driveline", "engine", "displacement_cc", "fuel", "city_mpg", "highway_mpg"),
            *("electric_range_mi", "battery_kwh", "motor_power_hp", "dc_fast_charge", "charge_port", "exterior_color"),
            *("interior_color", "features", "photos", "vdp_url", "description", "notes", "inventory_date"),
        )
    }
    | {
        "selling_price": ("price", "selling_price"),
        "rooftop_hints": ("rooftop", "dealer_id", "rooftop_hints"),
        "feed_updated_at": ("updated_at", "feed_updated_at"),
    },
    passes_extras=True,
)

VAUTO = Layout(
    name="vauto",
    kinds=("delimited",),
    columns={
        "vin": ("VIN",),
        "stock": ("Stock #",),
        "year": ("Year",),
        "make": ("Make",),
        "model": ("Model",),
        "trim": ("Series", "Series Detail"),
        "condition": ("New/Used",),
        "certified": ("Certified",),
        "status": ("Status Code", "Disposition"),
        "selling_price": ("Price",),
        "list_price": ("Other Price",),
        "msrp": ("MSRP",),
        "mileage": ("Odometer",),
        "body": ("Body",),
        "transmission": ("Transmission",),
        "driveline": ("Drivetrain Desc",),
        "fuel": ("Fuel", "Fuel Type"),
        "engine": ("Engine", "Engine Description"),
        "displacement_litres": ("Engine Displacement",),
        "city_mpg": ("City MPG",),
        "highway_mpg": ("Highway MPG",),
        "exterior_color": ("Colour", "Color"),
        "interior_color": ("Interior Color",),
        "features": ("Features",),
        "photos": ("Photos", "Photo Url List"),
        "vdp_url": ("Vehicle Detail Link", "Listing Url"),
        "description": ("Description",),
        "rooftop_hints": ("DealerId", "Dealer Name"),
        "inventory_date": ("Inventory Date",),
    },
    joined=frozenset({"trim"}),
)

HOMENET = Layout(
    name="homenet",
    kinds=("delimited",),
    columns=_IDENTITY
    | {
        "stock": ("Stock",),
        "trim": ("Trim", "Style_Description"),
        "condition": ("Type",),
        "certified": ("Certified",),
        "vehicle_type": ("MarketClass",),
        "selling_price": ("Internet_Price", "SellingPrice"),
        "list_price": ("SellingPrice",),
        "msrp": ("MSRP",),
        "mileage": ("Miles",),
        "body": ("Body",),
        "transmission": ("Transmission", "Transmission_Description"),
        "driveline": ("Drivetrain",),
        "fuel": ("Fuel_Type",),
        "engine": ("Engine_Description",),
        "displacement_cc": ("EngineDisplacement",),
        "displacement_cubic_inches": ("EngineDisplacementCubicInches",),
        "city_mpg": ("CityMPG",),
        "highway_mpg": ("HighwayMPG",),
        "exterior_color": ("ExteriorColor", "Ext_Color_Generic"),
        "interior_color": ("InteriorColor", "Int_Color_Generic"),
        "features": ("Options", "Categorized Options"),
        "photos": ("ImageList",),
        "description": ("Description",),
        "rooftop_hints": ("DealerName",),
        "inventory_date": ("DateInStock",),
    },
)

DEALERSOCKET = Layout(
    name="dealersocket",
    kinds=("delimited",),
    columns=_IDENTITY
    | {
        "stock": ("Stock",),
        "condition": ("Condition",),
        "certified": ("Certified",),
        "vehicle_type": ("CabType",),
        "selling_price": ("Price", "CustomPrice"),
        "list_price": ("RetailPrice",),
        "mileage": ("Mileage",),
        "body": ("Body",),
        "transmission": ("Transmission",),
        "driveline": ("Drivetrain",),
        "engine": ("Engine",),
        "city_mpg": ("MPGCity",),
        "highway_mpg": ("MPGHighway",),
        "exterior_color": ("ExtColor", "GenericExtColor"),
        "interior_color": ("IntColor", "GenericIntColor"),
        "features": ("Options", "StandardEquipment"),
        "photos": ("ImageURLs",),
        "description": ("Comments",),
        "rooftop_hints": ("DealerId", "FeedId"),
        "inventory_date": ("InDate",),
    },
    fuel_inside_engine=True,
)

GOOGLE = Layout(
    name="google",
    kinds=("delimited",),
    columns=_IDENTITY
    | {
        "stock": ("id",),
        "vehicle_id": ("id",),
        "make": ("make", "brand"),
        "condition": ("condition",),
        "certified": ("certified_pre_owned",),
        "status": ("availability",),
        "selling_price": ("price",),
        "msrp": ("vehicle_msrp",),
        "mileage": ("mileage",),
        "body": ("body_style",),
        # Google's `engine` is the kind of fuel.
        "fuel": ("engine",),
        "exterior_color": ("exterior_color", "color"),
        "interior_color": ("interior_color",),
        "photos": ("image_link", "additional_image_link"),
        "vdp_url": ("link", "link_template"),
        "description": ("description",),
        "rooftop_hints": ("store_code",),
        "inventory_date": ("date_in_stock",),
    },
)

META = Layout(
    name="meta",
    kinds=("delimited",),
    columns=_IDENTITY
    | {
        "stock": ("stock_number",),
        "vehicle_id": ("vehicle_id",),
        "condition": ("state_of_vehicle",),
        "vehicle_type": ("vehicle_type",),
        "status": ("availability",),
        "selling_price": ("sale_price", "price"),
        "list_price": ("price",),
        "msrp": ("msrp",),
        "mileage": ("mileage.value",),
        "mileage_unit": ("mileage.unit",),
        "body": ("body_style",),
        "transmission": ("transmission",),
        "driveline": ("drivetrain",),
        "fuel": ("fuel_type",),
        "engine": ("engine",),
        "exterior_color": ("exterior_color",),
        "interior_color": ("interior_color",),
        "vdp_url": ("url",),
        "description": ("description",),
        "rooftop_hints": ("dealer_id",),
        "inventory_date": ("date_first_on_lot",),
    },
    patterns=((r"image\d*url", "photos"),),
    # A quality grade (excellent, good), not the sale condition.
    strangers=frozenset({"condition"}),
)

CARSFORSALE = Layout(
    name="carsforsale",
    kinds=("delimited",),
    columns={
        "rooftop_hints": ("DealerID",),
        "condition": ("NewUsed",),
        "vin": ("VIN",),
        "stock": ("StockNumber",),
        "make": ("Make",),
        "model": ("Model",),
        "year": ("ModelYear",),
        "trim": ("Trim",),
        "body": ("BodyStyle",),
        "mileage": ("Miles",),
        "engine": ("Engine",),
        "fuel": ("FuelType",),
        "transmission": ("Transmission",),
        "selling_price": ("Price",),
        "exterior_color": ("ExteriorColor",),
        "interior_color": ("InteriorColor",),
        "features": ("Options",),
        "description": ("Description",),
        "photos": ("PhotoURLs",),
    },
    positions=(
        *("DealerID", "NewUsed", "VIN", "StockNumber", "Make", "Model", "ModelYear", "Trim", "BodyStyle", "Miles"),
        *("Engine", "Cylinders", "FuelType", "Transmission", "Price", "ExteriorColor", "InteriorColor", "Options"),
        *("Description", "PhotoURLs"),
    ),
)

DEALERCOM = Layout(
    name="dealercom",
    kinds=("json",),
    columns=_IDENTITY
    | {
        "stock": ("stockNumber",),
        "condition": ("type",),
        "certified": ("certified",),
        "selling_price": ("internetPrice", "salePrice", "askingPrice"),
        "list_price": ("askingPrice",),
        "msrp": ("msrp",),
        "mileage": ("odometer",),
        "body": ("bodyStyle",),
        "transmission": ("transmission",),
        "driveline": ("normalDriveLine", "driveLine"),
        "fuel": ("normalFuelType", "fuelType"),
        "engine": ("engine",),
        "city_mpg": ("cityFuelEconomy",),
        "highway_mpg": ("highwayFuelEconomy",),
        "exterior_color": ("exteriorColor",),
        "interior_color": ("interiorColor",),
        "photos": ("images.uri",),
        "vdp_url": ("link",),
        "rooftop_hints": ("accountId",),
        "inventory_date": ("inventoryDate",),
    },
)

SCHEMAORG = Layout(
    name="schemaorg",
    kinds=("json",),
    columns={
        "vin": ("vehicleIdentificationNumber",),
        "stock": ("sku",),
        "year": ("vehicleModelDate", "modelDate"),
        "make": ("brand.name", "brand", "manufacturer.name", "manufacturer"),
        "model": ("model", "model.name"),
        "trim": ("vehicleConfiguration",),
        "condition": ("itemCondition", "offers.itemCondition"),
        "vehicle_type": ("@type",),
        "status": ("offers.availability",),
        "selling_price": ("offers.price", "offers.priceSpecification.price"),
        "mileage": ("mileageFromOdometer.value", "mileageFromOdometer"),
        "mileage_unit": ("mileageFromOdometer.unitCode", "mileageFromOdometer.unitText"),
        "body": ("bodyType",),
        "transmission": ("vehicleTransmission",),
        "driveline": ("driveWheelConfiguration",),
        "fuel": ("fuelType", "vehicleEngine.fuelType"),
        "engine": ("vehicleEngine.name", "vehicleEngine"),
        "exterior_color": ("color",),
        "interior_color": ("vehicleInteriorColor",),
        "photos": ("image", "image.url", "image.contentUrl"),
        "vdp_url": ("url", "offers.url"),
        "description": ("description",),
        "rooftop_hints": ("offers.seller.name",),
        "feed_updated_at": ("dateModified",),
    },
)

GENERIC = Layout(
    name="generic",
    kinds=("delimited", "json"),
    columns={
        "vin": ("VIN", "VIN_No", "VIN Number", "Vehicle Identification Number"),
        "stock": ("Stock", "Stock #", "Stock_No", "StockID", "StockNumber", "Stock Num", "Stk", "Stock No."),
        "vehicle_id": ("vehicle_id",),
        "vehicle_type": ("vehicle_type",),
        "year": ("Year", "ModelYear", "Model Year"),
        "make": ("Make", "Brand"),
        "model": ("Model",),
        "trim": ("Trim", "Series", "Trim Level"),
        "condition": (
            "NEW-USED",
            "New/Used",
            "New_Used",
            "UsedNew",
            "NewUsed",
            "Condition",
            "Type",
            "Sale Condition",
            "Vehicle Condition",
        ),
        "certified": ("Certified", "IsCpo", "CPO", "Is Certified", "Certified Pre-Owned"),
        "is_used": ("IsUsed",),
        "is_new": ("IsNew",),
        "status": ("Status", "Availability", "Vehicle Status"),
        "selling_price": (
            *(
                "Internet_Price",
                "InternetPrice",
                "InternetSpecial",
                "Preferred_Price",
                "SalePrice",
                "Low_Price",
                "SellingPrice",
                "Price",
            ),
            *("Selling Price", "Asking Price", "AdvertisedPrice", "Our Price", "WebPrice"),
        ),
        "list_price": ("ListPrice", "RetailPrice", "Retail", "Other Price"),
        "msrp": ("MSRP", "Sticker Price"),
        "mileage": ("Mileage", "Miles", "Odometer"),
        "mileage_unit": ("Mileage Unit", "Odometer Unit"),
        "body": ("Body", "BodyStyle", "Body Type", "Body Style"),
        "transmission": ("Transmission", "Tranmission", "Transmission_Description", "Trans"),
        "driveline": ("Drivetrain", "Driveline", "Drive Train", "Drive Type", "Drivetrain Desc", "Drive"),
        "fuel": ("Fuel", "Fuel Type"),
        "engine": ("Engine", "Engine Description"),
        "displacement_cc": ("Engine Displacement", "Displacement", "Displacement CC"),
        "displacement_cubic_inches": ("EngineDisplacementCubicInches",),
        "city_mpg": ("City MPG", "MPGCity", "EPACity", "MPG City"),
        "highway_mpg": ("Highway MPG", "MPGHighway", "EPAHighway", "MPG Hwy", "HwyMPG"),
        "electric_range_mi": ("Electric Range", "EV Range", "Range Miles"),
        "battery_kwh": ("Battery kWh", "Battery Capacity"),
        "charge_port": ("Charge Port",),
        "exterior_color": (
            "ExteriorColor",
            "ExtColor",
            "Color",
            "Colour",
            "OEMColorNameExterior",
            "Exterior Colour",
            "Ext_Color_Generic",
        ),
        "interior_color": ("InteriorColor", "IntColor", "OEMColorNameInterior", "Interior Colour", "Int_Color_Generic"),
        "features": ("Features", "Options", "Categorized Options", "StandardEquipment", "Equipment"),
        "photos": (
            "Photos",
            "Photo_URLs",
            "ImageList",
            "ImageURLs",
            "Images",
            "Photo Url List",
            "Image URL",
            "Photo URL",
            "Pictures",
        ),
        "vdp_url": (
            "VDPURL",
            "VDP",
            "DetailPageUrl",
            "Website VDP URL",
            "Listing Url",
            "URL",
            "Link",
            "Vehicle Detail Link",
        ),
        "description": ("Description", "VehicleComments", "Comments", "Dealer Comments", "Seller Notes"),
        "rooftop_hints": ("Rooftop", "DealerId", "DealerName", "Dealer Name", "Store", "Location", "FeedId"),
        "inventory_date": (
            "DATE-IN-STOCK",
            "DateInStock",
            "Inventory Date",
            "InDate",
            "In Stock Date",
            "Date In Stock",
        ),
        "feed_updated_at": (
            "Last Modified",
            "Last Updated",
            "Modified Date",
            "Updated At",
            "LastModifiedDate",
            "Date Modified",
        ),
    },
    patterns=((r"(?:image|photo|picture)(?:url|link)?\d+(?:url)?", "photos"),),
)
"""The aliases in the wild. Every delimited layout falls back on them for columns that it does not name itself."""

LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        CANONICAL, VAUTO, HOMENET, DEALERSOCKET, GOOGLE, META, CARSFORSALE, DEALERCOM, SCHEMAORG, GENERIC,
    )
}  # fmt: skip
"""Layouts by name; of two that fit a file equally, the earlier is taken."""

_WITHHELD = re.compile(
    r"cost|invoice|holdback|bookvalue|blackbook|kbb|kelley|^nada|jdpower|wholesale|^mmr|^acv|floorplan|profit|margin|dealernet"
    r"|tradeinvalue|actualcashvalue|^bookprice|^book$|^pack$"
)


def is_withheld(column: str) -> bool:
    """Whether a column, or the path of a JSON member, tells what a dealer paid or hopes to earn: it is never read."""
    return _WITHHELD.search(fold(column)) is not None
