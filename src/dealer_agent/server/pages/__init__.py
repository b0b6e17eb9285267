"""The two pages that a person sees, rendered on the server: the dealer at `/`, the API to read at `/docs`.

No script, no cookie, nothing from elsewhere: one stylesheet of our own, served at `/static/style.css`.
"""

from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, stylesheet

__all__ = ["CONTENT_SECURITY_POLICY", "docs_page", "home_page", "stylesheet"]
