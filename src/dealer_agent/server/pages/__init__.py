"""The HTML pages: the dealer at `/`, the API at `/docs`, and the pages behind the links of customers.

They have no scripts, no cookies and nothing from other hosts. Their stylesheet is at `/static/style.css`.
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
