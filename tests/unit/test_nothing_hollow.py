"""Nothing hollow: what is declared is used by the program itself, or stands on a list with the reason why it is there."""

import gc
from functools import cache
from pathlib import Path

import pytest
from hollow import (
    Module,
    read_modules,
    undeclared,
    unread_options,
    unused_alternatives,
    unused_definitions,
    unused_members,
    unwritten_metrics,
)
from hollow_fields import fields_of, unread_fields, unset_fields

SOURCE = Path(__file__).parents[2] / "src"

FOR_USERS = "public API: users call it by `millstream`"
DOCUMENTED = "public API: documented under its module"
FOR_TESTS_OF_USERS = "public API: `millstream.testing`"
TO_COME = "for the connectors to come; the guarantees they serve are decided already"

UNUSED = {
    "millstream.agents.decorators:action": DOCUMENTED,
    "millstream.api.functions.context:FunctionContext": FOR_USERS,
    "millstream.api.functions.combining_state:AggregatingState": FOR_USERS,
    "millstream.api.functions.state:ListState": FOR_USERS,
    "millstream.api.functions.combining_state:ReducingState": FOR_USERS,
    "millstream.api.functions.window:window_state": FOR_USERS,
    "millstream.api.values.aggregates:avg": FOR_USERS,
    "millstream.api.values.aggregates:count": FOR_USERS,
    "millstream.api.values.aggregates:count_distinct": FOR_USERS,
    "millstream.api.values.aggregates:first": FOR_USERS,
    "millstream.api.values.aggregates:last": FOR_USERS,
    "millstream.api.values.aggregates:max": FOR_USERS,
    "millstream.api.values.aggregates:min": FOR_USERS,
    "millstream.api.functions.nondeterministic:nondeterministic": FOR_USERS,
    "millstream.api.values.aggregates:sum": FOR_USERS,
    "millstream.client.service:Client": "public API: `millstream.client`, by which the command line calls it too",
    "millstream.checkpoint.failpoint:reset": "the tests of one process count failpoints anew",
    "millstream.connectors.collect.sink:collected_table": DOCUMENTED,
    "millstream.connectors.consumer.spec:consumer": FOR_USERS,
    "millstream.connectors.datagen.spec:datagen": FOR_USERS,
    "millstream.connectors.files.reader:published_files": DOCUMENTED,
    "millstream.connectors.files.reader:read_files": FOR_USERS,
    "millstream.connectors.files.spec:files": FOR_USERS,
    "millstream.connectors.http.spec:http": FOR_USERS,
    "millstream.connectors.jdbc.reading.spec:jdbc_query": FOR_USERS,
    "millstream.connectors.jdbc.reading.spec:jdbc_table": FOR_USERS,
    "millstream.connectors.jdbc.spec:jdbc": FOR_USERS,
    "millstream.connectors.messaging.loop:close_loop": "the interpreter calls it at its end",
    "millstream.connectors.kafka.fetching:close_parked": "the interpreter calls it at its end",
    "millstream.connectors.kafka.spec:kafka": FOR_USERS,
    "millstream.connectors.loader.spec:loader": FOR_USERS,
    "millstream.connectors.nats.spec:nats": FOR_USERS,
    "millstream.connectors.rabbitmq.spec:rabbitmq": FOR_USERS,
    "millstream.connectors.nexmark.dataset:event_table": "the oracle of examples/nexmark reads its events from it",
    "millstream.connectors.postgres_cdc.spec:postgres_cdc": FOR_USERS,
    "millstream.connectors.print.spec:print_rows": FOR_USERS,
    "millstream.connectors.rate.spec:rate": FOR_USERS,
    "millstream.inspect.state.stored:read_state": FOR_USERS,
    "millstream.plan.flink_keys:options_table": "the table in the docs is compared with it",
    "millstream.plan.serialize:from_json": "the other half of what `millstream plan` writes; tests alone read it back",
    "millstream.testing.harness:run_job": FOR_TESTS_OF_USERS,
    "millstream.testing.marks:ABORT": FOR_TESTS_OF_USERS,
    "millstream.testing.marks:ADVANCE_CLOCK": FOR_TESTS_OF_USERS,
    "millstream.testing.marks:WATERMARK": FOR_TESTS_OF_USERS,
    "millstream.testing.sink_contract:SinkContract": FOR_TESTS_OF_USERS,
    "millstream.testing.sink_replacing:ReplacingContract": FOR_TESTS_OF_USERS,
    "millstream.testing.source_contract:SourceContract": FOR_TESTS_OF_USERS,
}
MEMBERS = {
    "SourceCapability.BEST_EFFORT": TO_COME,
    "SinkCapability.BEST_EFFORT": TO_COME,
}
ALTERNATIVES = {
    "Level: info": "users choose it by --log-level; the logging module knows what it means",
}
CAPABILITIES = {
    "SourceCapability.TRANSACTIONAL_READ": TO_COME,
    "SourceCapability.BEST_EFFORT": TO_COME,
    "SinkCapability.UPSERT_BY_KEY": TO_COME,
    "SinkCapability.BEST_EFFORT": TO_COME,
}
UNREAD_FIELDS = {
    "EpochManifest.watermarks": "part of the stored format, for people: a restart takes them from the plan beside them",
}


@cache
def source():
    """Parsed once, without a look for garbage in between: trees are many small objects that all stay."""
    gc.disable()
    try:
        modules = read_modules(SOURCE)
        assert all(module.nodes for module in modules if module.text)
        return modules
    finally:
        gc.enable()


def test_every_public_definition_has_a_caller():
    assert sorted(unused_definitions(source())) == sorted(UNUSED)


def test_every_member_of_an_enumeration_is_named():
    assert sorted(unused_members(source())) == sorted(MEMBERS)


def test_every_alternative_of_a_type_is_made_or_compared_with():
    assert sorted(unused_alternatives(source())) == sorted(ALTERNATIVES)


def test_every_capability_is_declared_by_a_connector():
    capabilities = [*undeclared(source(), "SourceCapability"), *undeclared(source(), "SinkCapability")]
    assert sorted(capabilities) == sorted(CAPABILITIES)


def test_every_option_of_a_connector_is_read():
    assert unread_options(source()) == []


def test_every_metric_has_a_writer():
    assert unwritten_metrics(source()) == []
    assert [each for name in ("Totals", "EpochSummary") for each in unset_fields(source(), name)] == []


@pytest.mark.parametrize("name", ["TaskReport", "EpochManifest", "Advance"])
def test_every_field_of_a_protocol_value_is_set_and_read(name):
    assert len(fields_of(source(), name)) > 3
    assert unset_fields(source(), name) == []
    allowed = [field for field in UNREAD_FIELDS if field.startswith(f"{name}.")]
    assert unread_fields(source(), name) == allowed


def test_every_exception_is_still_one():
    """The lists are compared as a whole, so what has got a caller leaves them; every reason is a sentence."""
    lists = (UNUSED, MEMBERS, ALTERNATIVES, CAPABILITIES, UNREAD_FIELDS)
    assert all(len(reason) > 20 for each in lists for reason in each.values())


# The finder itself, on modules that are made up.


def made(**texts):
    return [Module(f"millstream.{name.replace('__', '.')}", text) for name, text in texts.items()]


def test_a_hollow_class_is_found():
    hollow = Module(
        "millstream.model.hollow", "class Hollow:\n    def copy(self) -> 'Hollow':\n        return Hollow()\n"
    )
    assert unused_definitions([*source(), hollow]) == [*unused_definitions(source()), "millstream.model.hollow:Hollow"]


def test_importing_is_not_using():
    defined = "class Thing: ...\ndef act(): act()\nKind = Literal['a']\ndef _own(): ...\n"
    imported = "from millstream.a import Thing, act, Kind\n__all__ = ['Thing', 'act']\n"
    names = ["millstream.a:Thing", "millstream.a:act", "millstream.a:Kind"]
    assert unused_definitions(made(a=defined, b=imported)) == names


@pytest.mark.parametrize(
    "use",
    [
        "from millstream.a import Thing\nThing()",
        "from millstream.a import Thing as Other\ndef _f(x: Other): ...",
        "from millstream import a\na.Thing()",
        "import millstream.a\nmillstream.a.Thing()",
        "CODE = 'millstream.a:Thing'",
        "importlib.import_module('millstream.a').Thing",
    ],
)
def test_what_counts_as_use(use):
    assert unused_definitions(made(a="class Thing: ...", b=use)) == []
    assert unused_definitions(made(a="class Thing: ...", b=use.replace("Thing", "Another"))) == ["millstream.a:Thing"]


def test_members_and_alternatives_that_nobody_names_are_found():
    declared = "class Way(StrEnum):\n    UP = 'up'\n    DOWN = 'down'\nSide = Literal['left', 'right']\n"
    used = "def go(way, side: Literal['right']): return way is Way.UP and side == 'left'\n"
    modules = made(a=declared, b=used)
    assert (unused_members(modules), unused_alternatives(modules)) == (["Way.DOWN"], ["Side: right"])


def test_an_option_that_nobody_reads_is_found():
    spec = "OPTIONS = {'path': Option(kind=(str,)), 'limit': Option(kind=(int,)), 'seed': Option(kind=(int,))}\n"
    spec += (
        "def files(path, limit, seed): return ConnectorSpec('files', {'path': path, 'limit': limit, 'seed': seed})\n"
    )
    reader = "def read(options): return options['path'], options.get('seed')\n"
    modules = made(
        connectors__files__spec=spec, connectors__files__source=reader, connectors__other__source="o['limit']"
    )
    assert unread_options(modules) == ["files.limit"]


def test_a_metric_without_samples_is_found():
    listed = "RUN = (_run('rows_total', 'Rows.'), _run('vertex_busy', 'Busy.'), _run('lost_total', 'Lost.'))\n"
    given = "def figures(name): yield Figure('rows_total', 1), Figure(f'vertex_{name}', 2), Figure(f'{name}', 3)\n"
    modules = made(jobmaster__metrics__catalogue=listed, jobmaster__metrics__figures=given)
    assert unwritten_metrics(modules) == ["lost_total"]


def test_fields_that_nobody_sets_or_reads_are_found():
    value = "class Report:\n    rows: int\n    busy: float\n    lost: int\n    due: dict\nclass Other:\n    lost: int\n"
    made_by = "def make(): report = Report(rows=1, busy=2.0)\ndef fill(report: Report): report.due['a'] = 1\n"
    read_by = "def read(reports: list[Report], other: Other):\n"
    read_by += "    return [each.rows + each.due + other.lost for each in reports]\n"
    modules = made(a=value, b=made_by, c=read_by)
    assert unset_fields(modules, "Report") == ["Report.lost"]
    assert unread_fields(modules, "Report") == ["Report.busy", "Report.lost"]
