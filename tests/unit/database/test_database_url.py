"""Urls of databases: their forms, what is refused, and that no password is shown."""

import subprocess
import sys

import pytest

from millstream.checkpoint.stores.database import parse_url
from millstream.checkpoint.stores.open import open_store
from millstream.database.url import PARAMETERS, address_of, database_url
from millstream.errors import InvalidPlan

SPECIAL = "p@s:s/w#o?r%d& +[x]"
ENCODED = "p%40s%3As%2Fw%23o%3Fr%25d%26%20%2B%5Bx%5D"


def shown_forms(url):
    return f"{url!r} {url} {url.shown} {url.label}"


def test_the_parts_of_a_server():
    url = address_of("postgres://me@Db.Example:6432/my%20shop?sslmode=require&connect_timeout=3")
    assert (url.kind, url.user, url.host, url.port, url.database) == ("postgresql", "me", "db.example", 6432, "my shop")
    assert dict(url.parameters) == {"sslmode": "require", "connect_timeout": "3"}
    assert url.label == "PostgreSQL database 'my shop' on db.example:6432"


@pytest.mark.parametrize(
    ("url", "host", "port", "label"),
    [
        ("postgresql://h/d", "h", 0, "on h:5432"),
        ("postgresql://[::1]:6432/d", "::1", 6432, "on ::1:6432"),
        ("postgresql://me@/d?host=/run/pg", "", 0, "on /run/pg:5432"),
        ("POSTGRESQL:///d", "", 0, "on localhost:5432"),
    ],
)
def test_where_a_server_is(url, host, port, label):
    parsed = address_of(url)
    assert (parsed.host, parsed.port) == (host, port)
    assert parsed.label.endswith(label)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///data/a%20b.db", "data/a b.db"),
        ("sqlite:////var/out.db", "/var/out.db"),
        ("sqlite:////var/a@b:c#d.db", "/var/a@b:c#d.db"),
    ],
)
def test_the_file_of_sqlite(url, path):
    parsed = address_of(url)
    assert (parsed.kind, parsed.path, parsed.label) == ("sqlite", path, f"SQLite database {path!r}")


@pytest.mark.parametrize("read", [address_of, database_url])
def test_a_password_with_special_characters_is_read_and_hidden(read):
    url = read(f"postgresql://me:{ENCODED}@h:1/d")
    assert url.password == SPECIAL
    assert url.shown == "postgresql://me@h:1/d"
    assert SPECIAL not in shown_forms(url)
    assert ENCODED not in shown_forms(url)
    assert url.hidden(f"no {SPECIAL}, no {ENCODED}") == "no ***, no ***"


@pytest.mark.parametrize("password", ["pa#ss", "pa?ss", "pa[ss", "pa@ss", "pa:ss", "pa ss"])
def test_a_password_as_libpq_takes_it_does_not_swallow_the_rest(password):
    url = database_url(f"postgresql://me:{password}@h:1/d?store=s&sslmode=require", own=("store",))
    assert (url.password, url.host, url.port, url.database) == (password, "h", 1, "d")
    assert (dict(url.own), url.driver) == ({"store": "s"}, f"postgresql://me:{password}@h:1/d?sslmode=require")
    assert "ss" not in shown_forms(url)


@pytest.mark.parametrize("password", ["pa#ss", "pa?ss", "pa/ss", "pa/s@s"])
def test_a_checked_url_writes_such_characters_with_a_percent(password):
    with pytest.raises(ValueError, match="%XX") as refused:
        address_of(f"postgresql://me:{password}@h/d")
    assert "ss" not in str(refused.value).replace("password", "")


def test_a_password_among_the_parameters_is_hidden():
    url = database_url("postgresql://h/d?password=a%2Bb+c&sslpassword=long-a%2Bb+c")
    assert url.hidden("a%2Bb+c a+b+c a+b c long-a+b c") == "*** *** *** ***"
    assert "a%2Bb" not in shown_forms(url)
    assert "a+b" not in shown_forms(url)


def test_a_url_that_is_misread_shows_no_password():
    url = database_url("postgresql://me:s3/c@ret@h/d")
    assert "s3" not in f"{url!r} {url.shown}"
    assert "ret" not in f"{url!r} {url.shown}".replace("secret", "")


def test_unknown_parameters_of_a_checked_url_are_refused():
    for name in ("options", "passfile", "service", "password", "store"):
        with pytest.raises(ValueError, match=f"no parameter '{name}'; one of channel_binding, connect_timeout"):
            address_of(f"postgresql://me:hunter2@h/d?{name}=hunter2")
    for name in PARAMETERS:
        assert dict(address_of(f"postgresql://h/d?{name}=1").parameters) == {name: "1"}


def test_several_servers_are_for_the_driver_to_understand():
    url = database_url("postgresql://me@h1:1,h2:2/d?target_session_attrs=any")
    assert (url.driver, url.port) == ("postgresql://me@h1:1,h2:2/d?target_session_attrs=any", None)
    with pytest.raises(ValueError, match="host:port"):
        address_of(url.driver)


@pytest.mark.parametrize("url", ["", "x", "oracle://h/d", "http://me:hunter2@h"])
def test_other_schemes_are_refused(url):
    with pytest.raises(ValueError, match=r"^postgresql://user@host:port/database or sqlite:///path$"):
        database_url(url)


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://h/x.db", "sqlite:///:memory:", "sqlite://a@/x.db"]
)
def test_sqlite_needs_a_file(url):
    with pytest.raises(ValueError, match="sqlite:///path of a file"):
        database_url(url)


def test_a_store_keeps_its_name_behind_any_password():
    parsed = parse_url("postgresql://me:pa#ss@h/d?store=other")
    assert (parsed.store, parsed.shown) == ("other", "postgresql://me@h/d?store=other")


def test_a_store_in_sqlite_refuses_unknown_parameters(tmp_path):
    with pytest.raises(InvalidPlan, match="unknown parameter 'mode'") as refused:
        open_store(f"sqlite:///{tmp_path}/x.db?mode=ro&store=s")
    assert refused.value.code == "PLAN-034"
    assert list(tmp_path.iterdir()) == []


def test_no_driver_is_imported_before_a_url_needs_it():
    code = "import sys, millstream, millstream.checkpoint.stores.open; print('psycopg' in sys.modules, 'sqlite3' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False False"
