"""The console: pages for the people of a dealership, at `/console` of the service.

`acts.py` says who may do what, and `routes.py` lists the pages. Begin with `console.py`, which answers a request.
"""
