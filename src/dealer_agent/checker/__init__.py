"""Checks any dealer agent against the protocol, from outside: it knows a URL and nothing else.

requirements/*.toml   what is required: id, level, sentence, link, advice (`requirement.py` reads them)
checks/*.py           one function for each requirement (`check.py` has the decorator and explains how to write one)
exchange.py           a request and a response as bytes, and how strictly their JSON is read
wire.py               sends requests: rate, Retry-After, time and sizes are bounded
revision.py, card.py, discovery.py   what is found behind the URL
target.py             what a check gets: one interface of one card, in one vocabulary
material.py           what checks share: the listings, the dealer's information, the facets
runner.py             runs the checks and emits events (events.py), from which the reports are made
"""
