"""Which IP addresses the service may connect to. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

_SPECIAL = tuple(
    map(
        ip_network,
        (
            # The registries of special addresses of IANA. `ipaddress` has other ones in each version of Python.
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
            # A public address at which each virtual machine of Azure finds its metadata.
            "168.63.129.16/32",
            # Teredo and other special uses, documentation, and 6to4.
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "3fff::/20",
        ),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All other IPv6 addresses are local, special, or forms of IPv4 addresses: mapped, compatible, translated, NAT64."""


class AddressRefused(Exception):  # noqa: N818 - says what happened.
    """A host has an address that the rule does not allow. The message says what to do."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, and not a form of another address. Raises ValueError."""
    ip = ip_address(address.partition("%")[0])
    return not any(ip in network for network in _SPECIAL) and (ip.version == 4 or ip in _GLOBAL_UNICAST)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """Which IP addresses a connection may go to: public ones, and those of `networks`."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether a connection may go to an IP address. Raises ValueError for another text."""
        ip = ip_address(address.partition("%")[0])
        return is_public(address) or any(ip in network for network in self.networks)

    def check(self, host: str, addresses: Iterable[str]) -> None:
        """Raises AddressRefused if a host has an address that is not allowed."""
        if not all(map(self.allows, addresses)):
            raise AddressRefused(
                f"the host {host} has an address that is not public: check the address; the operator allows networks "
                "with private_networks under [service]"
            )


ANY_ADDRESS = AddressRule((IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))
"""For addresses that the operator has written."""
