"""How alembic runs our revisions: on the connection it is given, inside that connection's transaction."""

from __future__ import annotations

from alembic import context

from millstream.control.metadata.tables.all import SCHEMA

context.configure(connection=context.config.attributes["connection"], target_metadata=SCHEMA, render_as_batch=True)
context.run_migrations()
