"""What every test folder may use: `database_url`, which runs a test on SQLite and on PostgreSQL.

Every run ends with what its tests counted. No generated case fails for the
time that it took: how long a machine keeps a process waiting says nothing about the program.
"""

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.storage.databases",
    "tests.servers.valkey",
    "tests.servers.pgbouncer",
    "tests.servers.haproxy",
    "tests.servers.prometheus",
    "tests.figures",
]

settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("patient"), max_examples=10)
settings.load_profile("patient")
