"""Alembic's entry: runs the migrations on the connection, and in the transaction, that `storage.migrate` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
