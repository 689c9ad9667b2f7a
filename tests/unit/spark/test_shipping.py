"""What travels to the workers can be pickled, whatever this process did with it before."""

import dataclasses
import typing

import cloudpickle
import msgspec

import millstream as ms
from millstream.spark.query.shipping import ship_by_value


@dataclasses.dataclass
class Inner:
    n: int = 0


@dataclasses.dataclass
class Total:
    inner: Inner
    many: list[Inner]


class Named(typing.NamedTuple):
    total: Total


class Sums(ms.ProcessFunction):
    total = ms.ValueState(Total)
    named = ms.MapState(str, Named)

    def process(self, row, ctx):
        return None


def test_types_that_msgspec_has_seen_are_shipped():
    job = ms.Job("shipped")
    rows = job.source("rows", ms.memory([]), schema="k string")
    rows.key_by("k").process(Sums, schema="k string", id="sums").sink("out", ms.collect("shipped"))
    for kind in (Total, Named):
        msgspec.msgpack.Decoder(kind)
    deployment = job.compile().deployment
    ship_by_value(deployment)
    assert isinstance(cloudpickle.loads(cloudpickle.dumps(deployment)).name, str)
    again = cloudpickle.loads(cloudpickle.dumps(deployment)).plan.vertices[1].vertex.head.operation.states[0].type
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"inner": {"n": 3}, "many": []}), type=again).inner.n == 3
