"""Makes the HTML pages: the dealer at `/`, the API at `/docs`, and the pages behind the links of customers.

They run no scripts, and have no cookies and nothing from other hosts. Their stylesheet is at `/static/style.css`.
"""
