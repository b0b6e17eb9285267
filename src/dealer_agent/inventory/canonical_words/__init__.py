"""The canonical words for vehicles, and how words of dealers and buyers are compared
(docs/protocol.md#inventory-search). Pure.

A filter's value matches a listing if `value_key(vocabulary, listed) in wanted_keys(vocabulary, wanted)`. A colour
matches if the `colour_words` of the listing include all `wanted_colour_words`. A query matches if each term of
`query_terms(query)` is found: one of its alternatives is in the `index_words` of the listing, or the prefix of one.
"""
