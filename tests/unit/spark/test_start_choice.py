"""When we start the JVM ourselves, and when PySpark's launcher does."""

import sys

import pytest

from millstream.spark.start import choice
from millstream.spark.start.choice import may_end_abruptly, why_no_zygote, why_not

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PySpark's launcher starts the JVM")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    monkeypatch.setattr(choice, "_has_gateway", lambda: False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_local_run_is_started_by_us(master):
    assert why_not(master, {}, {}) is None


@pytest.mark.parametrize(
    ("master", "confs", "environ", "reason"),
    [
        ("spark://host:7077", {}, {}, "master spark://host:7077"),
        ("yarn", {}, {}, "master yarn"),
        ("local[2]", {}, {"MILLSTREAM_FAST_START": "0"}, "MILLSTREAM_FAST_START=0"),
        ("local[2]", {}, {"SPARK_HOME": "/opt/spark"}, "SPARK_HOME is set"),
        ("local[2]", {}, {"SPARK_CONF_DIR": "/etc/spark"}, "SPARK_CONF_DIR is set"),
        ("local[2]", {}, {"PYSPARK_GATEWAY_PORT": "1234"}, "PYSPARK_GATEWAY_PORT is set"),
        ("local[2]", {}, {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}, "PYSPARK_SUBMIT_ARGS is set"),
        ("local[2]", {"spark.jars": "a.jar"}, {}, "spark.jars is set"),
        ("local[2]", {"spark.jars.packages": "a:b:1"}, {}, "spark.jars.packages is set"),
        ("local[2]", {"spark.driver.extraClassPath": "a.jar"}, {}, "spark.driver.extraClassPath is set"),
    ],
)
def test_what_only_the_launcher_understands_is_left_to_it(master, confs, environ, reason):
    assert why_not(master, confs, environ) == reason


def test_a_process_that_has_a_jvm_keeps_it(monkeypatch):
    monkeypatch.setattr(choice, "_has_gateway", lambda: True)
    assert why_not("local[2]", {}, {}) == "Spark runs in this process"


@pytest.mark.parametrize(
    ("confs", "environ"),
    [
        ({"spark.executorEnv.PYTHONWARNINGS": "error"}, {}),
        ({"spark.pyspark.python": "/usr/bin/python3"}, {}),
        ({"spark.python.worker.reuse": "false"}, {}),
        ({}, {"PYSPARK_PYTHON": "/another/python"}),
        ({}, {"OMP_NUM_THREADS": "4"}),
    ],
)
def test_settings_that_an_interpreter_reads_when_it_starts_need_one_that_starts(confs, environ):
    assert why_no_zygote(confs, environ) is not None


def test_the_own_python_is_no_other():
    assert why_no_zygote({"spark.sql.ansi.enabled": "true"}, {"PYSPARK_PYTHON": sys.executable}) is None


def test_spark_is_told_to_stop_where_somebody_listens():
    assert may_end_abruptly({"spark.sql.ansi.enabled": "true"})
    assert not may_end_abruptly({"spark.eventLog.enabled": "true"})
    assert not may_end_abruptly({"spark.extraListeners": "a.B"})
