"""How a person names an agent in a command."""

import pytest

from dealer_agent.callers.caller import LONGEST_IDENTITY, read_identity
from dealer_agent.callers.issuer import LONGEST_CLIENT, LONGEST_ISSUER

pytestmark = pytest.mark.outside_protocol("commands")


@pytest.mark.parametrize(
    "identity",
    [
        "https://agent.example",
        "https://agent.example:8443",
        "https://[2001:db8::1]",
        "https://[2001:db8::1]:8443",
        "https://192.0.2.1",
        "https://xn--bcher-kva.example",
        "https://login.example#shopping-agent",
        "https://login.example/realms/a#shopping-agent",
        "https://" + "a" * (LONGEST_ISSUER - 8) + "#" + "b" * LONGEST_CLIENT,
        "http://127.0.0.1:8080#shopping-agent",
        "https://login_server.example#https://host.example/client?a=1&b='$(2)'",
        "token:01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
    ],
)
def test_an_identity_is_an_origin_a_token_or_the_client_of_an_issuer(identity: str) -> None:
    assert read_identity(identity) == identity


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("agent.example", "write an origin such as"),
        ("http://agent.example", "write an origin such as"),
        ("https://Agent.Example", "did you mean https://agent.example?"),
        ("https://agent.example/", "did you mean https://agent.example?"),
        ("https://agent.example:443", "did you mean https://agent.example?"),
        ("https://agent.example/keys?x=1", "did you mean https://agent.example?"),
        ("https://user@agent.example", "did you mean https://agent.example?"),
        ("https://[2001:0db8::1]", "did you mean https://[2001:db8::1]?"),
        ("https://agent.example.", "did you mean https://agent.example?"),
        ("https://[2001:db8::1", "must be an https origin"),
        ("https://", "must be an https origin"),
        ("https://b\u00fccher.example", "write the host in ASCII"),
        ("https://agent.example:99999", "must be an https origin"),
        ("https://login.example#", "must end with the id of a client"),
        ("https://login.example#a b", "must end with the id of a client"),
        ("https://#client", "must be an https origin"),
        ("ftp://login.example#client", "write an origin such as"),
        ("https://" + "a" * LONGEST_IDENTITY, f"at most {LONGEST_IDENTITY} characters"),
    ],
)
def test_another_text_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        read_identity(text)
    assert advice in str(refused.value)
