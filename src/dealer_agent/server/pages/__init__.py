"""The pages for people, rendered on the server: the dealer at `/`, the API at `/docs`, and the links of customers.

They have no script, no cookie and nothing from elsewhere. One stylesheet of our own is served at `/static/style.css`.
"""

from dealer_agent.server.pages.customer import contact_page, notice_page, visit_page
from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, FORM_SECURITY_POLICY, stylesheet

__all__ = [
    "CONTENT_SECURITY_POLICY",
    "FORM_SECURITY_POLICY",
    "contact_page",
    "docs_page",
    "home_page",
    "notice_page",
    "stylesheet",
    "visit_page",
]
