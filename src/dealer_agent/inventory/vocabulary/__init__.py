"""The canonical words for vehicles, and how words of dealers and buyers are compared
(docs/protocol.md#inventory-search). Pure.

**Values.** `canonical(vocabulary, text)` is the canonical word, or the text as it is. The value of a filter matches a
listing if `value_key(vocabulary, listed) in wanted_keys(vocabulary, wanted)`. A colour matches if the `colour_words` of
the listing include all `wanted_colour_words`.

**Queries.** The words of a listing are all `index_words(field, value)` of its `SEARCHED` fields. A query matches if
each term of `query_terms(query)` is found: one of its alternatives is a word of the listing, or the prefix of one.

- A query is split at spacing and punctuation. Words that a hyphen, point or apostrophe joins are one word (`f-150` is
`f150`), unless all of them have three characters or more (`twin-turbo` is two terms). - The longest run of words that
is a known spelling is one term: `all wheel drive`. Its alternatives are the joined spelling (`allwheeldrive`) and
markers of the canonical words (`driveline=awd`). - Each other word is a term. Fillers are dropped. Gray and grey are
alternatives. - The words of a listing are the words of its values, whole and in parts (`F-150`: f150, f, 150), and the
words and markers of its canonical words. Names add joined neighbours (`F 150`: f150), and letters and digits on their
own (`CX5`: cx, 5). Colours add their basic colours. Prose adds the known spellings in it, joined.
"""
