"""Only what looks like a name is repeated in a mail (docs/reference/delivery.md, "Mails to people")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.leads.mails import likely_name

pytestmark = pytest.mark.outside_protocol("mails")

NAMES = (
    *(
        "Jordan",
        "Mary Ann",
        "Jos\u00e9 Luis",
        "Jose\u0301",
        "Anne-Marie",
        "O'Neil",
        "D\u2019Angelo",
        "J. R.",
        "St. John",
    ),
    *(
        "Zo\u00eb",
        "Nguy\u1ec5n",
        "\u041c\u0430\u0440\u0438\u044f",
        "\u0395\u03bb\u03ad\u03bd\u03b7",
        "\u674e\u5c0f\u9f99",
        "\u30af\u30ea\u30b9\u30c8\u30d5\u30a1\u30fc",
    ),
    *(
        "\ubbfc\uc900",
        "\u0645\u062d\u0645\u062f",
        "\u05e0\u05d5\u05e2\u05d4",
        "\u092a\u094d\u0930\u093f\u092f\u093e",
        "\u0e13\u0e31\u0e10\u0e1e\u0e07\u0e29\u0e4c",
    ),
)
NO_NAMES = (
    *("", " ", "-", ".", "Robin2", "Robin\u0662", "\u2167", "you@example.com", "example.com", "www.example", "<b>"),
    *("Call us now", "You have won", "Click here", "Call Us Now", "Win-A-New-Car", "robin", "Hello.", "Sam!"),
    *("Sam\nPat", "Sam\tPat", "Sam\u2028Pat", "Sam\u00a0Pat", "Sam  Pat", "Sam\u202e", "Sam\u200b"),
    *("Sam\u200d", "Sam\ufe0f", "\u3164", "\u115f", "Sam, Pat"),
    *("\uff33\uff41\uff4d", "\U0001d412\U0001d41a\U0001d426", "\ufb01", "S" * 31, "A" + "\u0301\u0300" * 4),
    "\u606d\u559c\u60a8\u4e2d\u5956\u8bf7\u81f4\u7535\u6211\u4eec",
)  # fmt: skip


@pytest.mark.parametrize("text", NAMES)
def test_names_of_any_script_are_names(text: str) -> None:
    assert likely_name(text)
    assert likely_name(f" {text} ") == likely_name(text)


@pytest.mark.parametrize("text", NO_NAMES)
def test_what_could_be_a_message_or_a_link_is_no_name(text: str) -> None:
    assert likely_name(text) == ""


@given(st.text(max_size=40))
def test_a_name_is_short_and_holds_letters_and_what_joins_them(text: str) -> None:
    name = likely_name(text)
    assert len(name) <= 30
    assert len(name.split()) <= 2
    assert not any(letter.isdigit() or letter in "@/:,;!?<>\\\n\r\t" for letter in name)
