"""What is told of connectors follows from their declarations and from the table of guarantees."""

import pytest

from millstream.inspect.connectors.facts import connector_facts, guarantee_table, known_connectors, promises_of
from millstream.model.connector import ConnectorDeclaration, Option, SinkDeclaration, SourceDeclaration, declaration
from millstream.model.guarantee import Guarantee, SinkCapability, SourceCapability
from millstream.registry import names

OURS = names("connectors")


def declared(**sink):
    return ConnectorDeclaration(
        name="made-up",
        source=SourceDeclaration(
            options={"kind": Option(kind=(str,), doc="which")},
            capability=SourceCapability.TRANSACTIONAL_READ,
            capability_of=lambda options: (
                SourceCapability.BEST_EFFORT if options["kind"] else SourceCapability.REPLAYABLE
            ),
            enumerator="",
            reader="",
            variants=({}, {"kind": "wild"}),
        ),
        sink=SinkDeclaration(options={}, capability=SinkCapability.IDEMPOTENT, writer="", committer="", **sink),
    )


def kept(facts):
    return {(each.role, each.when): list(each.guarantees.values()) for each in facts}


def test_a_capability_decides_which_guarantees_are_kept():
    assert kept(promises_of(declared())) == {
        ("source", ""): ["yes", "yes", "yes", "yes"],
        ("source", "kind='wild'"): ["refused", "refused", "refused", "yes"],
        ("sink", ""): ["refused", "staged", "staged", "staged"],
    }


@pytest.mark.parametrize("name", OURS)
def test_every_side_of_every_connector_is_told(name):
    facts = connector_facts(name)
    found = declaration(name)
    roles = [role for role in ("source", "sink") if getattr(found, role) is not None]
    assert list(facts.options) == roles
    assert {each.role for each in facts.promises} == set(roles)
    for role in roles:
        side = getattr(found, role)
        assert [option.name for option in facts.options[role]] == list(side.options)
        assert all(option.doc and option.type for option in facts.options[role])
        assert side.capability.value in facts.capabilities(role), "the best that it says it can promise"


@pytest.mark.parametrize("name", OURS)
def test_what_a_promise_depends_on_is_told_by_variants(name):
    """A side whose promise depends on options names them, and each case differs from the others in some way."""
    found = declaration(name)
    for side in filter(None, (found.source, found.sink)):
        depends = side.capability_of is not None or getattr(side, "direct_writer", "")
        promises = [each for each in promises_of(found) if each.role == ("source" if side is found.source else "sink")]
        assert len(promises) > 1 if depends else len(promises) == 1
        assert all(option in side.options for each in promises for option in each.options)


def test_the_table_has_a_line_for_each_case():
    known = [facts for facts in known_connectors() if facts.package is None]
    lines = guarantee_table(known)
    assert len(lines) == 2 + sum(len(facts.promises) for facts in known)
    assert all(line.count("|") == 3 + len(Guarantee) for line in lines)
    assert "| sink `consumer`, `idempotent=True` | IDEMPOTENT | refused | staged | staged | staged |" in lines
    assert "| sink `jdbc`, `mode='upsert'` | STAGED_ATOMIC_COMMIT | staged | direct | direct | direct |" in lines
    assert "| source `loader` | AT_LEAST_ONCE | refused | refused | yes | yes |" in lines


def test_types_are_written_for_people():
    types = {option.name: option.type for option in connector_facts("loader").options["source"]}
    assert types["function"] == "function or str"
    assert types["start"] == "any JSON value"
    modes = {option.name: option.type for option in connector_facts("jdbc").options["sink"]}
    assert modes["mode"] == "'insert', 'upsert', 'outbox'"
