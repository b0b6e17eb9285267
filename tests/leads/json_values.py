"""Any JSON value, as a body brings it: huge numbers, odd strings, and nesting included."""

import json

from hypothesis import strategies as st

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", " ", "email", "any", "lead_submission", "2026-03-02T14:58:00Z", "9999-12-31T23:59:59-23:00",
         "+12025550123", "jordan@example.com", "used", "\0", "\u202e", "1e400"]
    ),
)  # fmt: skip
numbers = st.one_of(
    st.integers(),
    st.sampled_from([10**30, -(10**300), 2**63, 2**64, -0.0, 1e300, 2020.0]),
    st.floats(allow_nan=False, allow_infinity=False),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


def as_body(value: object) -> bytes:
    """The value as it travels."""
    return json.dumps(value).encode()
