"""What every test folder may use: `database_url`, which runs a test on SQLite and on PostgreSQL.

Every run ends with the gaps of the requirements table, and with what its tests counted.
"""

pytest_plugins = ["tests.storage.databases", "tests.requirements.gaps", "tests.figures"]
