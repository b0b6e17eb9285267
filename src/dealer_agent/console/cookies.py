"""The cookie of a session."""

from dealer_agent.console.credentials import Origin
from dealer_agent.console.requests import ConsoleRequest
from dealer_agent.server.tokens import hash_secret

COOKIE = "__Host-dealer-console"
"""Its prefix keeps it from other hosts and from plain HTTP."""
LOOPBACK_COOKIE = "dealer-console"
"""The cookie on the machine itself, where there is no TLS."""
LONGEST_SECRET = 100


def set_cookie(request: ConsoleRequest, secret: str | None) -> None:
    """Gives the browser the secret of a session, or takes it away (None)."""
    name, secure = (COOKIE, "; Secure") if request.origin.secure else (LOOPBACK_COOKIE, "")
    age = "" if secret else "; Max-Age=0"
    request.cookies.append(f"{name}={secret or ''}; Path=/; HttpOnly; SameSite=Strict{secure}{age}")


def session_hash(cookies: str, origin: Origin) -> bytes | None:
    """The hash of the secret in the header `Cookie`. None if it has none, or several."""
    name = COOKIE if origin.secure else LOOPBACK_COOKIE
    pairs = [each.strip().partition("=") for each in cookies.split(";")]
    secrets = [value for key, _, value in pairs if key == name]
    return hash_secret(secrets[0]) if len(secrets) == 1 and 0 < len(secrets[0]) <= LONGEST_SECRET else None
