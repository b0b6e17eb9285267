"""The words of the trade, spelled once: how dealers' and buyers' words are compared (contract, parts 6 and 7). Pure.

**Values.** `canonical(field, text)` is the canonical word, or the text as it is. A filter's value finds a listing's if
`value_key(field, listed) in wanted_keys(field, wanted)`, for every field of text but the colours: the keys are folded
canonical words, and folded texts where there is no vocabulary. A colour is found when
`colour_matches(wanted_colour_words(wanted), colour_words(listed))`.

**Queries.** A listing's words are the union of `index_words(field, value)` over the `SEARCHED` fields that it has. It
matches when every term of `query_terms(query)` is found: one alternative of the term is a word of the listing, or the
start of one (`is_found`).

- The query is split at spacing and punctuation; what a hyphen, point or apostrophe joins stays one word (`f-150` is
  `f150`) unless all its parts have three characters or more (`twin-turbo` is two terms).
- The longest run of words that is a known spelling (`all wheel drive`, `plug-in hybrid`, `chevy`) is one term. Its
  alternatives are the spelling joined (`allwheeldrive`) and the canonical words that it finds, as markers
  (`driveline=awd`).
- Other words are a term each; fillers are dropped; gray and grey are each other's alternative.
- A listing is found through the words of its values, whole and in parts (`F-150`: f150, f, 150); through the markers
  and words of its canonical words; for make, model and trim also through neighbours joined (`F 150`: f150) and letters
  and digits apart (`CX5`: cx, 5); for colours through their basic colour; for prose through the known spellings in it,
  joined.
"""

from dealer_agent.inventory.vocabulary.colours import colour_matches, colour_words, wanted_colour_words
from dealer_agent.inventory.vocabulary.query import FILLERS, SEARCHED, Term, index_words, is_found, query_terms
from dealer_agent.inventory.vocabulary.tables import canonical, known, value_key, wanted_keys
from dealer_agent.inventory.vocabulary.text import fold, words

__all__ = [
    "FILLERS",
    "SEARCHED",
    "Term",
    "canonical",
    "colour_matches",
    "colour_words",
    "fold",
    "index_words",
    "is_found",
    "known",
    "query_terms",
    "value_key",
    "wanted_colour_words",
    "wanted_keys",
    "words",
]
