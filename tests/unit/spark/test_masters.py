"""Which master Spark is given: tasks of a local one are tried as often as on a cluster."""

import pytest

from millstream.spark.start.session import retrying


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[*, 7]", "local[*, 7]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_tasks_again_unless_it_says_otherwise(given, used):
    assert retrying(given) == used
