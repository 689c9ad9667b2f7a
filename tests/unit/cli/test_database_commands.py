"""Commands that go to the service's database itself: the schema behind it, and a token where none works any more."""

import pytest
from sqlalchemy import select

from millstream.control.act import reading
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import api_token, audit


@pytest.fixture
def url(tmp_path):
    metadata = Metadata(f"sqlite:///{tmp_path}/metadata.db")
    migrate.upgrade(metadata)
    metadata.close()
    return f"sqlite:///{tmp_path}/metadata.db"


def test_a_token_is_made_beside_the_service(cli, url):
    done = cli("token", "create", "ada", "--role", "admin", "--database", url)
    assert done.exit_code == 0
    assert done.stdout.startswith("ms_")
    metadata = Metadata(url)
    with reading(metadata) as act:
        row = act.connection.execute(select(api_token)).one()
        written = act.connection.execute(select(audit)).one()
    metadata.close()
    assert (row.name, row.role, written.action, written.target) == ("ada", "admin", "token.create", row.id)
    assert done.stdout.strip() not in str(written)


def test_a_schema_goes_back_to_revisions_that_there_are(cli, url):
    assert cli("db", "downgrade", "0", "--database", url, "--yes").exit_code != 0
    done = cli("db", "downgrade", "0", "--database", url, "--yes")
    assert "CTL-005" in done.stderr
    assert cli("db", "downgrade", "0003", "--database", url, "--yes").exit_code == 0
    assert cli("token", "create", "ada", "--database", url).exit_code == 3
