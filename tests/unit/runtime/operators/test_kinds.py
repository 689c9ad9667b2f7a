"""One table says which operator serves a keyed node; an operation of another package names its own."""

import dataclasses
import subprocess
import sys
from typing import ClassVar

import pytest
from tests.golden.cases import load_cases

import millstream as ms
from millstream.errors import InvalidPlan, MillstreamError
from millstream.graph.operations.aggregate import KeyedAggregate
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.kinds import KINDS, kind_of, kinds_of, stores_of
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


def all_kinds():
    return [kind for operation in KINDS for kind in kinds_of(operation)]


def test_exactly_one_kind_fits_each_keyed_node(golden_nodes):
    for node in golden_nodes:
        if node.operation.operator:
            assert kind_of(node).fits(node), "named by the operation itself"
            continue
        offered = kinds_of(type(node.operation))
        assert len([kind for kind in offered if kind.fits(node)]) == 1, node.id
        foreign = [kind for kind in all_kinds() if not issubclass(type(node.operation), kind.takes)]
        assert not [kind for kind in foreign if kind.fits(node)], node.id


def test_every_kind_has_a_golden_node(golden_nodes):
    unmet = [kind.operator.__name__ for kind in all_kinds() if not any(kind.fits(node) for node in golden_nodes)]
    assert not unmet


def test_every_kind_stands_beside_the_operation_that_it_takes():
    assert {operation: {kind.takes for kind in kinds_of(operation)} for operation in KINDS} == {
        operation: {operation} for operation in KINDS
    }


def test_a_process_loads_the_operators_of_its_job_alone():
    code = (
        "import sys, millstream as ms\n"
        "job = ms.Job('counts')\n"
        "rows = job.source('in', ms.memory([{'k': 'a'}]), schema='k string').key_by('k')\n"
        "rows.aggregate(n=ms.count(), id='n').sink('out', ms.collect('out'))\n"
        "job.run(local=True)\n"
        "print([name for name in sys.modules if name.startswith('millstream.runtime.operators.pattern')])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


class Tallied(KeyedAggregate):
    """An operation of another package that is one of ours with another name."""


def test_an_operation_that_derives_from_one_of_ours_has_its_operator(node):
    tallied = Tallied(
        **{field.name: getattr(node.operation, field.name) for field in dataclasses.fields(node.operation)}
    )
    assert kind_of(dataclasses.replace(node, operation=tallied)) is kind_of(node)


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
