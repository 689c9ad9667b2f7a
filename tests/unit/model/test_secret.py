"""`${secret:NAME}`: where its value comes from, and that plans hold the name alone."""

import json

import pytest

import millstream as ms
from millstream.checkpoint.stores.open import open_for_reading, open_store
from millstream.connectors.jdbc.database import Login
from millstream.database.url import address_of
from millstream.errors import InvalidPlan, InvalidStep
from millstream.model import secret as secret_module
from millstream.model.secret import hold_secrets, url_with_secrets, with_secrets
from millstream.plan.deployment import Deployment
from millstream.plan.explain import LAYERS, explain, mermaid
from millstream.plan.serialize import from_json, to_json
from millstream.spark.start.confs import context_confs

NAMED = "postgresql://me:${secret:SHOP}@h/shop"
LITERAL = "postgresql://me:hunter2@h/shop"


@pytest.fixture
def shop(monkeypatch):
    monkeypatch.setenv("SHOP", "p@ss/w${x}")


def test_the_value_of_a_variable(shop):
    assert with_secrets("${secret:SHOP} and ${secret:SHOP}") == "p@ss/w${x} and p@ss/w${x}"
    assert url_with_secrets(NAMED) == "postgresql://me:p%40ss%2Fw%24%7Bx%7D@h/shop"


def test_the_value_of_a_file(monkeypatch, tmp_path):
    monkeypatch.delenv("SHOP", raising=False)
    monkeypatch.setenv("MILLSTREAM_SECRETS", str(tmp_path))
    (tmp_path / "SHOP").write_text("from a file\n")
    assert with_secrets("${secret:SHOP}") == "from a file"


def test_a_secret_that_nobody_knows(monkeypatch, tmp_path):
    monkeypatch.delenv("SHOP", raising=False)
    monkeypatch.setenv("MILLSTREAM_SECRETS", str(tmp_path))
    with pytest.raises(InvalidStep, match=r"RUN-022.*export SHOP") as refused:
        Login(address=address_of(NAMED), password_env=None, job="j", step="out").password()
    assert refused.value.step == "out"


def test_an_address_may_name_its_password(shop):
    login = Login(address=address_of(NAMED), password_env=None, job="j", step="out")
    assert login.password() == "p@ss/w${x}"


def test_spark_is_told_the_value_of_a_setting(shop):
    deployment = Deployment(confs={"spark.x.secret": "${secret:SHOP}", "spark.y": "1"})
    told = context_confs(deployment, debug=False)
    assert (told["spark.x.secret"], told["spark.y"]) == ("p@ss/w${x}", "1")
    assert "p@ss" not in repr(deployment)


def job_to(url, **options):
    job = ms.Job("shop")
    job.source("rows", ms.memory([]), schema="n long").sink("out", ms.jdbc(url, table="t", **options))
    return job


@pytest.mark.parametrize("job", [job_to(NAMED), job_to("postgresql://me@h/shop", password_env="SHOP")])
def test_a_named_password_makes_the_round_trip(job, shop):
    written = json.loads(json.dumps(job.to_json()))
    assert ms.Job.from_json(written).model == job.model
    layers = job.compile(Deployment(checkpoint="c", manifests=NAMED, confs=(("spark.x.secret", "${secret:SHOP}"),)))
    assert from_json(json.loads(json.dumps(to_json(layers)))) == layers
    assert "p@ss" not in f"{written} {to_json(layers)} {layers!r}"


def test_a_literal_password_is_not_written():
    with pytest.raises(InvalidStep, match=r"JDBC-025.*password_env.*\$\{secret:NAME\}") as refused:
        job_to(LITERAL).to_json()
    assert (refused.value.step, refused.value.found) == ("out", "postgresql://me:***@h/shop")


@pytest.mark.parametrize(
    "choices", [{"manifests": LITERAL, "checkpoint": "c"}, {"confs": (("spark.x.password", "hunter2"),)}]
)
def test_nor_is_one_of_the_surroundings(choices):
    layers = job_to(NAMED).compile(Deployment(**choices))
    with pytest.raises(InvalidPlan, match="RUN-023") as refused:
        to_json(layers)
    assert "hunter2" not in f"{refused.value} {layers!r}"


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_shows_a_password(layer):
    confs = (("spark.x.password", "hunter2"), ("spark.url", LITERAL))
    layers = job_to(LITERAL).compile(Deployment(checkpoint="c", manifests=LITERAL, confs=confs))
    shown = [explain(layers, layer), mermaid(layers, layer), json.dumps(to_json(layers, layer, portable=False))]
    assert "hunter2" not in f"{shown} {layers!r}"


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_shows_what_goes_along_with_a_request_and_is_named_as_secrets_are(layer):
    headers = {"X-Vault-Token": "hunter2", "Cookie": "sid=hunter2${secret:X}", "X-Auth": "hunter2", "Accept": "a/b"}
    named = {"Authorization": "Bearer ${secret:T}", "X-Api-Key": "${secret:K}"}
    job = ms.Job("sends", guarantee="at_least_once")
    body = {"inside": [{"my_token": "hunter2", "page": 1}]}
    source = ms.http(
        "https://h/x", method="POST", headers={**headers, **named}, params={"our_token": "hunter2"}, json=body
    )
    job.source("rows", source, schema="id long").sink("out", ms.http("https://h/y", headers=headers))
    layers = job.compile()
    written = to_json(layers, layer, portable=False)
    assert "hunter2" not in f"{explain(layers, layer)} {mermaid(layers, layer)} {json.dumps(written)}"
    options = written["job"]["steps"][0]["connector"]["options"]
    # Which secrets a job names stays to be seen.
    shown = {"X-Vault-Token": "***", "Cookie": "***${secret:X}", "X-Auth": "***", "Accept": "a/b"}
    assert options["headers"] == {**shown, **named}
    assert options["json"] == {"inside": [{"my_token": "***", "page": 1}]}
    # What another process reads back is whole.
    assert from_json(to_json(layers, layer)).model == layers.model


def test_stores_are_read_with_the_secret_too(monkeypatch, tmp_path):
    monkeypatch.setenv("FOLDER", tmp_path.name)
    url = f"sqlite:///{tmp_path.parent}/${{secret:FOLDER}}/manifests.db"
    open_store(url).close()
    store = open_for_reading(url)
    assert store.names("") == []
    store.close()


@pytest.fixture
def hands(monkeypatch):
    monkeypatch.setattr(secret_module, "_held", {})
    return hold_secrets


def test_what_a_process_was_handed_comes_first(shop, hands):
    hands({"SHOP": "handed over", "OTHER": "o"})
    assert with_secrets("${secret:SHOP} ${secret:OTHER}") == "handed over o"
    login = Login(address=address_of("postgresql://me@h/shop"), password_env="SHOP", job="j", step="s")
    assert login.password() == "handed over"


def test_secrets_are_handed_over_once(hands):
    hands({"SHOP": "a"})
    hands({"SHOP": "a"})
    for other in ({"SHOP": "b"}, {"SHOP": "a", "MORE": "c"}):
        with pytest.raises(InvalidStep, match="RUN-029") as caught:
            hands(other)
        assert "'b'" not in str(caught.value)
    assert with_secrets("${secret:SHOP}") == "a"
