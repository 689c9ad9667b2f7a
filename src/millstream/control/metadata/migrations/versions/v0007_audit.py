"""The audit is only ever added to: the database itself refuses to change it, and to forget what is not old."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
KEPT_DAYS = 399
"""A day less than retention keeps rows: it has to be able to forget them."""
_REFUSED = "the audit is only ever added to"
_SQLITE = {
    "audit_kept": f"BEFORE DELETE ON audit WHEN OLD.time > datetime('now', '-{KEPT_DAYS} days')",
    "audit_unchanged": "BEFORE UPDATE ON audit",
}
_POSTGRES = {
    "audit_kept": f"BEFORE DELETE ON audit FOR EACH ROW WHEN (OLD.time > clock_timestamp() - INTERVAL '{KEPT_DAYS} days')",
    "audit_unchanged": "BEFORE UPDATE ON audit FOR EACH ROW",
    "audit_whole": "BEFORE TRUNCATE ON audit FOR EACH STATEMENT",
}


def upgrade() -> None:
    """Forward."""
    if op.get_bind().dialect.name == "sqlite":
        for name, when in _SQLITE.items():
            op.execute(f"CREATE TRIGGER {name} {when} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END")
        return
    body = f"BEGIN RAISE EXCEPTION '{_REFUSED}'; END"
    op.execute(f"CREATE FUNCTION millstream_audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    for name, when in _POSTGRES.items():
        op.execute(f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION millstream_audit_refuses()")


def downgrade() -> None:
    """Back."""
    if op.get_bind().dialect.name == "sqlite":
        for name in _SQLITE:
            op.execute(f"DROP TRIGGER {name}")
        return
    for name in _POSTGRES:
        op.execute(f"DROP TRIGGER {name} ON audit")
    op.execute("DROP FUNCTION millstream_audit_refuses()")
