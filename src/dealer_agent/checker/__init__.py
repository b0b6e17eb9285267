"""Checks any dealer agent against the protocol, from outside: it knows a URL and nothing else.

requirements/*.toml   what is required: id, level, sentence, link, advice (`requirement.py` reads them)
fields.py             what is checked of each vehicle field, from which requirements and checks are generated
checks/*.py           a function or a row for each requirement (`check.py` explains how to write one)
outcome.py, reply.py  how a check ends if it does not pass, what a response says, and judgements of both
exchange.py           a request and a response as bytes, and how strictly their JSON is read
wire.py               sends requests: rate, Retry-After, time and sizes are bounded
revision.py, card.py, discovery.py   what is found behind the URL
target.py             what a check gets: one interface of one card, in one vocabulary, and the listings of its stock
runner.py             runs the checks and emits events (events.py), from which the reports are made
"""
