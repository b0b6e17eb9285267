"""The only package with SQL. One schema and one set of statements work on SQLite and on PostgreSQL."""
