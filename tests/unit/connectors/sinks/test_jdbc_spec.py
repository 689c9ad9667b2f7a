"""Options of the `jdbc` sink: addresses, secrets, and what each mode promises."""

import pickle

import pytest
from tests.unit.connectors.sinks.databases import options_of

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.layout import layout_of, open_database
from millstream.connectors.jdbc.spec import DECLARATION, jdbc
from millstream.database.url import address_of
from millstream.errors import InvalidStep
from millstream.model.guarantee import Guarantee
from millstream.model.schema import schema_of
from millstream.redaction import SecretUrl

POSTGRES = "postgresql://me@db.example:6432/shop"


def test_a_postgresql_address():
    found = address_of("postgresql://me:p%40ss%2Fw@db.example:6432/shop?sslmode=require&connect_timeout=3")
    assert (found.host, found.port, found.user, found.password) == ("db.example", 6432, "me", "p@ss/w")
    assert (found.database, dict(found.parameters)) == ("shop", {"sslmode": "require", "connect_timeout": "3"})


def test_an_sqlite_address_is_relative_or_absolute():
    assert address_of("sqlite:///data/out.db").path == "data/out.db"
    assert address_of("sqlite:////var/out.db").path == "/var/out.db"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://h/db",
        "postgresql://h",
        "postgresql://h/a/b",
        "postgresql://h:port/db",
        "postgresql://u:pa#ss@h/db",
        "postgresql://h/db?options=-csearch_path=x",
        "postgresql://h/db?passfile=/etc/passwd",
        "postgresql://h/db?service=x",
        "sqlite://out.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///out.db?mode=ro",
        "",
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(InvalidStep) as refused:
        options_of(jdbc(url, table="t"))
    assert refused.value.code == "CONN-005"


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h/db", "postgresql://u:s3/c@ret@h/db?x=1", "pg://u:s3cret@h"])
def test_the_password_of_an_address_is_not_shown(url):
    spec = jdbc(url, table="t")
    assert "s3" not in repr(spec)
    assert "ret" not in repr(spec)
    assert ":***@h" in repr(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_refused_address_hides_its_password():
    with pytest.raises(InvalidStep) as refused:
        options_of(jdbc("postgresql://u:s3cret@h/db?bad=1", table="t"))
    assert "s3cret" not in str(refused.value)
    with pytest.raises(InvalidStep) as refused:
        options_of(jdbc("postgresql://u:s3cret#x@h/db", table="t"))
    assert "s3cret" not in str(refused.value)


def test_a_checked_address_hides_its_password():
    options = options_of(jdbc("postgresql://u:s3cret@h/db", table="t"))
    assert isinstance(options["url"], SecretUrl)
    assert "s3cret" not in repr(options)


def test_the_password_comes_from_the_environment(monkeypatch):
    login = Login(address=address_of(POSTGRES), password_env="SHOP_PASSWORD", job="job", step="out")
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(InvalidStep) as refused:
        login.password()
    assert refused.value.code == "JDBC-003"
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")
    assert login.password() == "s3cret"
    assert "s3cret" not in repr(login)


@pytest.mark.parametrize("table", ["", "a b", "a;b", 'a"b', "1a", "x" * 49])
def test_table_names_are_plain_words(table):
    with pytest.raises(InvalidStep):
        options_of(jdbc(POSTGRES, table=table))


@pytest.mark.parametrize(
    "options",
    [{"mode": "upsert"}, {"mode": "insert", "keys": ["id"]}, {"mode": "outbox", "keys": ["id"]}],
)
def test_modes_and_keys_that_contradict(options):
    chosen = options_of(jdbc(POSTGRES, table="t", **options))
    with pytest.raises(InvalidStep) as refused:
        layout_of(chosen, schema_of("id long"), open_database(chosen, job="job", step="out"), step="out")
    assert refused.value.code == "JDBC-001"


def test_sqlite_has_no_schemas():
    chosen = options_of(jdbc("sqlite:///x.db", table="t", schema="s"))
    with pytest.raises(InvalidStep, match="SQLite has no schemas"):
        layout_of(chosen, schema_of("id long"), open_database(chosen, job="job", step="out"), step="out")


@pytest.mark.parametrize(
    ("mode", "capability", "direct"),
    [
        ("insert", "STAGED_ATOMIC_COMMIT", {"at_least_once", "best_effort"}),
        ("upsert", "STAGED_ATOMIC_COMMIT", {"effectively_once", "at_least_once", "best_effort"}),
        ("outbox", "OUTBOX_EPOCH_LOG", set()),
    ],
)
def test_what_a_mode_promises(mode, capability, direct):
    options = {"mode": mode}
    assert DECLARATION.sink.capability_of(options) == capability
    assert {level.value for level in Guarantee if DECLARATION.sink.writes_directly(options, level)} == direct
