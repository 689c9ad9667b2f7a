import pytest

from millstream.spark.query.slots import slot_labels, spark_hash

pytestmark = pytest.mark.spark


def test_the_hash_is_sparks_hash(spark):
    rows = spark.sql("SELECT id, hash(cast(id AS int)) AS h FROM range(-500, 500)").collect()
    assert {row.id: spark_hash(row.id & 0xFFFFFFFF) for row in rows} == {row.id: row.h for row in rows}


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 64])
def test_labels_reach_every_partition_once(spark, parallelism):
    labels = slot_labels(parallelism)
    placed = spark.createDataFrame([(label,) for label in labels], "label int").selectExpr(
        "label", f"pmod(hash(label), {parallelism}) AS partition"
    )
    assert [row.partition for row in placed.collect()] == list(range(parallelism))
