"""One table says which operator serves a keyed node; an operation of another package names its own."""

import dataclasses
from typing import ClassVar

import pytest
from tests.golden.cases import load_cases

import millstream as ms
from millstream.errors import InvalidPlan, MillstreamError
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.kinds import KINDS, kind_of, stores_of
from millstream.runtime.operators.process.operator import PROCESS


def keyed_nodes(job):
    plan = job.compile().deployment.plan
    return [planned.vertex.head for planned in plan.vertices if planned.vertex.is_keyed]


@pytest.fixture(scope="module")
def golden_nodes():
    """Every keyed node of the golden jobs that compile."""
    nodes = []
    for case in load_cases():
        try:
            nodes += keyed_nodes(case.job())
        except MillstreamError:
            assert case.error is not None, case.name
    return nodes


def test_exactly_one_kind_fits_each_keyed_node(golden_nodes):
    fitting = {node.id: [KINDS.index(kind) for kind in KINDS if kind.fits(node)] for node in golden_nodes}
    assert not {step: places for step, places in fitting.items() if len(places) != 1}


def test_every_kind_has_a_golden_node(golden_nodes):
    unmet = [kind.operator.__name__ for kind in KINDS if not any(kind.fits(node) for node in golden_nodes)]
    assert not unmet


class Nothing:
    """An operator of another package."""

    def __init__(self, node, *, key_groups, page_bytes):
        self.node = node


class Foreign:
    """An operation of another package."""

    kind: ClassVar = "foreign"
    operator: ClassVar = f"{__name__}:FOREIGN"


class Unnamed:
    """An operation that says nothing of an operator."""

    kind: ClassVar = "unnamed"
    operator: ClassVar = ""


class Mistaken:
    """An operation that names the operator of another one."""

    kind: ClassVar = "mistaken"
    operator: ClassVar = f"{__name__}:FOREIGN"


FOREIGN = KeyedKind(takes=Foreign, operator=Nothing, stores=PROCESS.stores)


@pytest.fixture
def node():
    job = ms.Job("kinds")
    rows = job.source("in", ms.memory([]), schema="k string, v long").key_by("k")
    rows.aggregate(n=ms.count(), id="counts").sink("out", ms.collect("out"))
    return keyed_nodes(job)[0]


def test_an_operation_of_another_package_names_its_operator(node):
    assert kind_of(dataclasses.replace(node, operation=Foreign())) is FOREIGN


def test_an_operation_without_operator_is_refused(node):
    with pytest.raises(InvalidPlan, match=r"'unnamed'.*operators\.kinds.*operator = 'package\.module:KIND'") as caught:
        stores_of(dataclasses.replace(node, operation=Unnamed()))
    assert caught.value.step == "counts"


def test_an_operator_that_does_not_take_the_operation_is_refused(node):
    with pytest.raises(InvalidPlan, match="'mistaken' names as its operator does not serve it"):
        kind_of(dataclasses.replace(node, operation=Mistaken()))
