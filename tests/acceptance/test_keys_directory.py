"""`dealer-agent keys directory`: makes a key, writes its directory, and says whether a published one is right."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.acceptance.running import command_here, free_port
from tests.delivery.certificates import server_certificate
from tests.servers.programs import ServerProcess, installed_program

from dealer_agent.client import Signer
from dealer_agent.http_signatures.directory import MEDIA_TYPE, PATH

pytestmark = pytest.mark.outside_protocol("the command keys directory")

ORIGIN = "https://agent.example"


def directory(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return command_here("keys", "directory", *words, cwd=None, **variables)


def new_key(path: Path) -> Path:
    assert directory("--new", path).returncode == 0
    return path


def keys_directory(*words: str | Path, **variables: str) -> Any:
    done = directory(*words, "--json", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def served(folder: Path, responses: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[tuple[str, str]]:
    """An https server on this machine: its origin, and the file of the authority that its clients need."""
    context, trusted = server_certificate(folder, host="localhost")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = responses.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"https://localhost:{server.server_port}", str(trusted)
        finally:
            server.shutdown()


def test_a_new_key_is_private_and_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.pem"
    found = keys_directory("--new", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert Signer.from_file(file, ORIGIN).thumbprint == found["thumbprint"]
    before, again = file.read_bytes(), directory("--new", file)
    assert (again.returncode, file.read_bytes()) == (1, before)
    assert "exists already" in again.stderr


def test_the_directory_of_several_keys_is_right_as_it_is_written(tmp_path: Path) -> None:
    keys = [new_key(tmp_path / name) for name in ("old.pem", "new.pem")]
    responses: dict[str, tuple[int, dict[str, str], bytes]] = {}
    with served(tmp_path, responses) as (origin, trusted):
        public = keys_directory(*keys, "--as", origin, "--write", tmp_path / "public")
        content = (tmp_path / "public" / "http-message-signatures-directory").read_bytes()
        responses[PATH] = (200, public["headers"], content)
        found = keys_directory(*keys, "--check", origin, SSL_CERT_FILE=trusted)
        assert [each["thumbprint"] for each in found["keys"]] == [
            Signer.from_file(key, ORIGIN).thumbprint for key in keys
        ]
        assert found["signature_until"] == public["signature_until"]
        assert found["kept_seconds"] == 24 * 3600
        # A server without our headers is right, too.
        responses[PATH] = (200, {"content-type": MEDIA_TYPE}, content)
        assert keys_directory("--check", origin, SSL_CERT_FILE=trusted)["signature_until"] is None


NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{}}
http {{
    include /etc/nginx/mime[.]types;
    access_log off;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
        include {folder}/public/nginx.conf;
    }}
}}
"""
CADDY = """
{{
    admin off
    auto_https off
}}
https://localhost:{port} {{
    bind 127.0.0.1
    tls {folder}/server.pem {folder}/server.key
    import {folder}/public/Caddyfile
}}
"""


@pytest.mark.parametrize("program", ["nginx", "caddy"])
def test_the_settings_for_a_server_serve_the_directory(program: str, tmp_path: Path) -> None:
    binary, port = installed_program(program, program), free_port()
    _, trusted = server_certificate(tmp_path, host="localhost")
    key, origin = new_key(tmp_path / "agent.pem"), f"https://localhost:{port}"
    public = keys_directory(key, "--as", origin, "--write", tmp_path / "public")
    settings = tmp_path / "settings"
    settings.write_text((NGINX if program == "nginx" else CADDY).format(port=port, folder=tmp_path), "utf-8")
    options: list[str | Path] = (
        ["-p", tmp_path, "-c", settings]
        if program == "nginx"
        else ["run", "--adapter", "caddyfile", "--config", settings]
    )
    server = ServerProcess([binary, *options], tmp_path, port)
    try:
        found = keys_directory(key, "--check", origin, SSL_CERT_FILE=str(trusted))
    finally:
        server.kill()
    assert found["signature_until"] == public["signature_until"]


def test_a_wrong_directory_is_refused_with_what_to_do(tmp_path: Path) -> None:
    key, other = new_key(tmp_path / "agent.pem"), new_key(tmp_path / "other.pem")
    responses: dict[str, tuple[int, dict[str, str], bytes]] = {}
    with served(tmp_path, responses) as (origin, trusted):
        right = keys_directory(key, "--as", origin)
        document, headers = right["document"].encode(), right["headers"]
        elsewhere = keys_directory(key, "--as", ORIGIN)["headers"]
        cases = [
            ((404, {}, b""), "answered 404"),
            ((302, {"location": f"{origin}/keys"}, b""), "do not follow redirects"),
            ((200, {"content-type": "application/json"}, document), "media type"),
            ((200, headers, b"{}"), "list `keys`"),
            ((200, headers, document.replace(b'"use"', b'"use" ')), "signature of the key directory is wrong"),
            ((200, elsewhere, document), "signature of the key directory is wrong"),
            ((200, headers, document), "does not have the key"),
        ]
        for response, message in cases:
            responses[PATH] = response
            done = directory(other, "--check", origin, SSL_CERT_FILE=trusted)
            assert done.returncode == 1, message
            assert message in done.stderr
    gone = directory("--check", origin, SSL_CERT_FILE=trusted)
    assert (gone.returncode, "cannot be reached" in gone.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of"),
        (["--new", "NEW", "--as", ORIGIN], "give one of"),
        (["KEY", "--new", "NEW"], "give no other KEY"),
        (["--as", ORIGIN], "needs a KEY"),
        (["KEY", "--as", "http://agent.example"], "is not an origin"),
        (["KEY", "--as", "https://agent.example/keys"], "is not an origin"),
        (["--check", "agent.example"], "is not an origin"),
        (["KEY", "--check", ORIGIN, "--write", "NEW"], "--write needs"),
        (["KEY", "--as", ORIGIN, "--days", "0"], "--days"),
    ],
)
def test_a_wrong_option_ends_with_code_2(words: list[str], message: str, tmp_path: Path) -> None:
    files = {"KEY": str(new_key(tmp_path / "agent.pem")), "NEW": str(tmp_path / "new")}
    done = directory(*(files.get(each, each) for each in words))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no key")
    for name in ("text", "absent"):
        done = directory(tmp_path / name, "--as", ORIGIN)
        assert (done.returncode, name in done.stderr) == (1, True)
