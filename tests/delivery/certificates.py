"""Certificates for tests: an authority, and a server that it vouches for."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def server_certificate(folder: Path, *, host: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """The context of a server for `host`, and the file that has who trusts it trust it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name: x509.GeneralName = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Example Authority")])
    now = datetime.now(UTC)

    def certificate(
        subject: x509.Name, public_key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(authority).public_key(public_key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if not is_authority:
            names = x509.SubjectAlternativeName([name])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(authority_key, hashes.SHA256())

    trusted, chain, secret = folder / "authority.pem", folder / "server.pem", folder / "server.key"
    pem = serialization.Encoding.PEM
    trusted.write_bytes(certificate(authority, authority_key.public_key(), is_authority=True).public_bytes(pem))
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Example Server")])
    chain.write_bytes(certificate(server, key.public_key(), is_authority=False).public_bytes(pem))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, secret)
    return context, trusted
