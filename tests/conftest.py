"""What every test folder may use: `database_url`, which runs a test on SQLite and on PostgreSQL."""

pytest_plugins = ["tests.storage.databases"]
