"""Makes the page at the root of an installation: the dealers that want to be listed."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.server.pages.site import render_page, stylesheet_address
from dealer_agent.server.served_dealers import ListedDealer


class _Site(NamedTuple):
    stylesheet: str
    catalog: str


def dealers_page(
    dealers: Sequence[ListedDealer], *, public_url: str, catalog_path: str, total: int, page: int, pages: int
) -> str:
    """One page of the list, of `pages`. `dealers` are those of this page, and `total` is the number of all."""
    parts = urlsplit(public_url)
    return render_page(
        "dealers.html",
        site=_Site(stylesheet_address(parts.path), parts.path + catalog_path),
        host=parts.netloc,
        dealers=dealers,
        card_path=CARD_PATH,
        total=total,
        page=page,
        pages=pages,
    )
