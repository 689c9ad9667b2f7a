"""Urls, settings and commands as they may be shown."""

import pickle

import pytest

from millstream.errors import ExternalFailure
from millstream.redaction import SecretText, SecretUrl, redacted, shown_setting, shown_url, shown_words


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@ss/w@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:p w@h/d?store=x", "postgresql://u:***@h/d?store=x"),
        ("postgresql:///d?password=pw&store=x", "postgresql:///d?password=***&store=x"),
        ("postgresql://h/d?sslpassword=pw", "postgresql://h/d?sslpassword=***"),
        ("s3://bucket/a?secret_access_key=pw&region=x", "s3://bucket/a?secret_access_key=***&region=x"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql://u:${secret:PW}@h/d", "postgresql://u:${secret:PW}@h/d"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("sqlite:////a/b.db?store=x", "sqlite:////a/b.db?store=x"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert shown_url(url) == shown
    assert repr(SecretUrl(url)) == repr(shown)
    assert SecretUrl(url).is_literal is (url != shown)
    assert pickle.loads(pickle.dumps(SecretUrl(url))) == url


def test_passwords_in_a_sentence():
    text = "neither postgresql://a:one@h/d nor postgresql://b:two@h/d answers; host=h password=three user=x"
    assert redacted(text) == (
        "neither postgresql://a:***@h/d nor postgresql://b:***@h/d answers; host=h password=*** user=x"
    )
    kept = "postgresql://user@host:port/database or s3://bucket/prefix; token=3; password_env='NAME'"
    assert redacted(kept) == kept


def test_every_error_leaves_passwords_out():
    url = "postgresql://u:hunter2@h/d"
    failure = ExternalFailure(f"{url} is away", found=url, known=[url], hint=f"start {url}")
    again = pickle.loads(pickle.dumps(failure))
    for found in (failure, again):
        assert "hunter2" not in f"{found} {found!r} {found.fields()}"
        assert found.found == "postgresql://u:***@h/d"


def test_settings_that_are_named_like_secrets():
    assert shown_setting("spark.hadoop.fs.s3a.secret.key", "hunter2") == "***"
    assert shown_setting("spark.hadoop.fs.s3a.access.key", "hunter2") == "***"
    assert shown_setting("spark.hadoop.fs.s3a.secret.key", "${secret:KEY}") == "${secret:KEY}"
    assert shown_setting("spark.hadoop.fs.azure.account.key.store", "hunter2") == "***"
    options = "-Xss16m -Djavax.net.ssl.trustStorePassword=hunter2 -Da=b"
    shown = "-Xss16m -Djavax.net.ssl.trustStorePassword=*** -Da=b"
    assert shown_setting("spark.driver.extraJavaOptions", options) == redacted(options) == shown
    assert shown_setting("spark.ui.enabled", "true") == "true"
    assert repr(SecretText("hunter2")) == "'***'"


def test_a_command():
    words = ["run", "job.py", "--manifests", "postgresql://u:pw@h/d", "-D", "spark.x.password=pw", "-D", "spark.y=1"]
    shown = ["run", "job.py", "--manifests", "postgresql://u:***@h/d", "-D", "spark.x.password=***", "-D", "spark.y=1"]
    assert list(shown_words(words)) == shown
    assert list(shown_words(["--manifests=postgresql://u:pw@h/d"])) == ["--manifests=postgresql://u:***@h/d"]
    assert list(shown_words(["-Dspark.x.token=pw"])) == ["-Dspark.x.token=***"]


@pytest.mark.parametrize("show", [shown_url, redacted])
@pytest.mark.parametrize(
    "url", ["postgresql://h:1/d?password=sec@ret", "postgresql://h:1/d?password=sec@ret&sslmode=off"]
)
def test_a_password_that_is_a_parameter_may_hold_the_sign_of_logins(show, url):
    shown = show(url)
    assert "sec" not in shown
    assert "ret" not in shown


SLIPS = ["postgres//u:hunter2@h:1/d", "postgresql:/u:hunter2@h/d", "u:hunter2@h/d", "postgresql:u:hunter2@h/d"]


@pytest.mark.parametrize("url", [*SLIPS, "postgresql://h:1/d?pwd=hunter2"])
def test_a_slip_in_a_url_does_not_show_its_password(url):
    assert "hunter2" not in shown_url(url)
    assert "hunter2" not in redacted(f"there is no {url!r}; write it in full")


@pytest.mark.parametrize(
    "text", ['{"email":"ann@example.org"}', "{'email': 'ann@example.org'}", "at 12:30 @ home: a@b"]
)
def test_addresses_in_records_stay(text):
    assert redacted(text) == text
