"""Host names: those of dealers in canonical form, and that of this machine. Pure."""

import re
from ipaddress import ip_address

MOST_CHARACTERS = 253

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r":[0-9]{1,5}$")


def canonical_host(host: str) -> str:
    """A host name in lower case, with IDNA labels, without a port and without a dot at its end.

    Raises ValueError, with a sentence for people, for an IP address, a wildcard and anything else that is no host name.
    """
    name = _PORT.sub("", host.strip()).removesuffix(".")
    if "*" in name:
        raise ValueError(f"{host!r} has a wildcard: add each host name by itself")
    if name.startswith("[") or name.count(":") > 1:
        raise ValueError(f"{host!r} is an IP address: a dealer needs a host name")
    try:
        ascii_name = name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError(f"{host!r} is no host name") from None
    labels = ascii_name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{host!r} is an IP address: a dealer needs a host name")
    if len(ascii_name) > MOST_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{host!r} is no host name")
    return ascii_name


def is_this_machine(host: str) -> bool:
    """Whether a host name or IP address always means this machine. Other names are not resolved."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
