"""Packs the documents of units in the record of the stock. Pure.

A packed document is a byte that names the packing, and a raw DEFLATE stream. The dictionary has the members of a
document and frequent values, so that a document of a kilobyte needs no own table of them. Stored data must stay
readable: a dictionary never changes, and another one gets another byte.
"""

import zlib
from typing import Final

_FORM: Final = b"\x01"
_BEGINS: Final = b"{"
_DICTIONARY: Final = (
    b'"dealer_id":"feed_updated_at":"2026-01-01T00:00:00Z","extras":{}}"monthly_payment":"warranty":"certified":true,'
    b'"previous_owners":1,"accidents":0,"title_status":"clean","electric_range_mi":"dc_fast_charge":false,"mpg_city":'
    b'"mpg_highway":"seats":5,"doors":4,"fees":[{"name":"Documentation fee","amount":"photos":["https://www.example.com'
    b'/images/inventory/photos/1.jpg","https://cdn.example.com/vehicles/","features":["Heated seats","Bluetooth",'
    b'"Apple CarPlay","Android Auto","Backup camera","Adaptive cruise control","Blind spot monitor","Navigation",'
    b'"Leather seats","Sunroof","Remote start","Third row","Tow package"],"description":"One owner, clean title and '
    b'a full service history. Well equipped with the ","vdp_url":"https://www.example.com/inventory/used/new/vehicle-'
    b'"interior_color":"Black","exterior_color":"White","exterior_color":"Silver","exterior_color":"Gray",'
    b'"exterior_color":"Blue","exterior_color":"Red","fuel":"Gasoline","fuel":"gasoline","fuel":"hybrid","fuel":'
    b'"electric","engine":"2.0L I4 Turbo","engine":"3.5L V6","engine":"5.0L V8","driveline":"AWD","driveline":"FWD",'
    b'"driveline":"4WD","transmission":"Automatic","transmission":"automatic","body":"SUV","body":"Sedan","body":"'
    b'Truck","msrp":"mileage":"trim":"model":"make":"Toyota","make":"Honda","make":"Ford","make":"Chevrolet",'
    b'"year":2025,"year":2024,"year":2023,"year":2022,"list_price":"selling_price":"condition":"new","condition":'
    b'"used","condition":"certified","status":"available","status":"pending","rooftop_hints":["stock":"vin":"1'
)
_LEVEL: Final = 6


def pack(document: bytes) -> bytes:
    """The packed form of a document (JSON)."""
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zdict=_DICTIONARY)
    return _FORM + packing.compress(document) + packing.flush()


def unpack(document: bytes) -> bytes:
    """The document, packed or not."""
    if document[:1] == _BEGINS:
        return document
    if document[:1] != _FORM:
        raise ValueError("the document has an unknown packing")
    return zlib.decompressobj(-zlib.MAX_WBITS, zdict=_DICTIONARY).decompress(document[1:])
