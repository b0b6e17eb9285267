"""Which IP addresses the service connects to for a dealer of an installation."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRefused, AddressRule, is_public

pytestmark = pytest.mark.outside_protocol("connections to addresses of dealers")

PUBLIC = [
    "93.184.215.14",
    "1.1.1.1",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "223.255.255.255",
]
PUBLIC_6 = ["2606:4700:4700::1111", "2a00:1450:4001::1", "2001:200::1", "2003::1", "2620:4f:8000::1"]
REFUSED = {
    "this machine": ["127.0.0.1", "127.255.255.255", "::1"],
    "any address of this machine": ["0.0.0.0", "0.1.2.3", "::"],
    "a private network": ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd00::1"],
    "the network of a provider": ["100.64.0.1", "100.127.255.255"],
    "this link or site": ["169.254.1.1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1"],
    "metadata of a cloud": ["169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"],
    "multicast and broadcast": ["224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1", "ff0e::1"],
    "documentation and tests": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "2001:db8::1", "3fff::1"],
    "reserved": ["192.0.0.1", "192.88.99.1", "240.0.0.1", "100::1", "5f00::1", "4000::1", "2001:1::1", "2001:20::1"],
}


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC_6])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", [each for kind in REFUSED.values() for each in kind])
def test_any_other_address_is_refused_unless_the_operator_allows_its_network(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused, match="private_networks under"):
        AddressRule().check("crm.example.com", ["93.184.215.14", address])
    network = ip_network(address.partition("%")[0])
    AddressRule((network,)).check("crm.example.com", ["93.184.215.14", address])
    ANY_ADDRESS.check("crm.example.com", [address])


FORMS = {
    "mapped": lambda ip: 0xFFFF << 32 | ip,
    "compatible": lambda ip: ip,
    "translated": lambda ip: 0xFFFF << 48 | ip,
    "NAT64": lambda ip: 0x64FF9B << 96 | ip,
    "local NAT64": lambda ip: 0x64FF9B0001 << 80 | ip,
    "6to4": lambda ip: 0x2002 << 112 | ip << 80 | 1,
    "Teredo": lambda ip: 0x20010000 << 96 | ip ^ 0xFFFFFFFF,
    "the server of Teredo": lambda ip: 0x20010000 << 96 | ip << 64,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(ip=st.ip_addresses(v=4))
def test_no_ipv6_form_of_an_ipv4_address_is_public(form: "object", ip: IPv4Address) -> None:
    assert callable(form)
    address = str(IPv6Address(form(int(ip))))
    assert not is_public(address)
    # A network that the operator allows is allowed in its own form only.
    assert not AddressRule((ip_network("0.0.0.0/0"),)).allows(address)


@given(ip=st.ip_addresses())
def test_what_python_knows_as_not_global_is_never_public(ip: IPv4Address | IPv6Address) -> None:
    assert not is_public(str(ip)) or (ip.is_global and not ip.is_multicast)
