"""Signed HTTP messages: RFC 9421, with the profile of Web Bot Auth (docs/protocol.md#signed-requests). Pure.

Buyer agents sign their requests, and publish their public keys in a directory on their origin:
draft-meunier-webbotauth-httpsig-protocol, and its predecessors draft-meunier-web-bot-auth-architecture and
draft-meunier-http-message-signatures-directory.

- `keys`: public and private keys as JWKs, and their thumbprints (RFC 7638)
- `origin`: the one spelling of an https origin
- `fields`: the structured fields of a message (RFC 9651), within bounds
- `signature_base`: what a signature covers (RFC 9421, section 2)
- `content_digest`: the digest of a body (RFC 9530)
- `web_bot_auth`: verifies the signature of a request
- `signing`: signs requests
- `directory`: key directories

It needs the extra `signatures`.
"""
