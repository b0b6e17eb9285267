"""Reads the URL of the database: SQLite, or one or several servers of PostgreSQL. Pure."""

import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dealer_agent.storage.errors import BadDatabaseUrl

_POSTGRESQL_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg")

_SEVERAL_SERVERS = re.compile(
    r"(?P<scheme>postgres(?:ql)?(?:\+psycopg)?://)(?P<user>[^@]*@)?(?P<servers>[^@/?]*,[^@/?]*)(?P<rest>(?:[/?].*)?)",
    re.DOTALL,
)
_SERVER = re.compile(r"(?P<host>\[[^]]*\]|[^]:[]*)(?::(?P<port>[0-9]*))?")

_CANNOT_READ = "the database URL cannot be read: write postgresql://... or sqlite:///path"


def database_url(url: str) -> URL:
    """`url` with the driver filled in. Raises BadDatabaseUrl.

    It accepts `sqlite:///relative/path`, `sqlite:////absolute/path`, `postgresql://...` and `postgres://...`. Several
    servers have the form of libpq, `postgresql://user@one:5432,two:5432/name`, or that of SQLAlchemy. The service uses
    the one of them that takes writes.
    """
    several = _SEVERAL_SERVERS.fullmatch(url)
    try:
        parsed = make_url(url if several is None else f"{several['scheme']}{several['user'] or ''}{several['rest']}")
    except (ArgumentError, ValueError):
        # Both errors may quote the URL, which may contain a password.
        raise BadDatabaseUrl(_CANNOT_READ) from None
    if parsed.drivername in _POSTGRESQL_SCHEMES:
        parsed = _with_servers(parsed.set(drivername="postgresql+psycopg"), several and several["servers"])
        try:
            # The driver raises UnicodeError for an invalid name, which is not a database error.
            for host in (parsed.host or "", *str(parsed.query.get("host", "")).split(",")):
                host.encode("idna")
        except UnicodeError:
            raise BadDatabaseUrl("the database URL has a host that is not a host name") from None
        return parsed
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise BadDatabaseUrl("SQLite needs a file (sqlite:///path): processes share it")
        return parsed
    raise BadDatabaseUrl(f"databases of kind {parsed.drivername!r} are not supported: use sqlite or postgresql")


def _with_servers(url: URL, servers: str | None) -> URL:
    """The URL with its servers in the lists `host` and `port` of the query, which SQLAlchemy and libpq understand.

    `servers` is the list of libpq's form of a URL. Raises BadDatabaseUrl.
    """
    named = url.query.get("host", ())
    listed = servers.split(",") if servers is not None else () if isinstance(named, str) else named
    if listed:
        matches = [_SERVER.fullmatch(each) for each in listed]
        hosts = [each["host"].strip("[]") for each in matches if each is not None]
        if len(hosts) != len(matches) or not all(hosts) or (servers is not None and "host" in url.query):
            raise BadDatabaseUrl(_CANNOT_READ)
        ports = [each["port"] or "5432" for each in matches if each is not None]
        url = url.update_query_dict({"host": ",".join(hosts), "port": ",".join(ports)})
    if "," not in str(url.query.get("host", "")):
        return url
    if url.query.get("target_session_attrs", "read-write") not in ("read-write", "primary"):
        raise BadDatabaseUrl(
            "the database URL names several servers, and the service needs the one that takes writes: remove "
            "target_session_attrs from the URL"
        )
    return url.update_query_dict({"target_session_attrs": url.query.get("target_session_attrs", "read-write")})


def is_sqlite(url: str) -> bool:
    """Whether the URL is that of a SQLite database. Raises BadDatabaseUrl."""
    return database_url(url).get_backend_name() == "sqlite"
