"""The patterns that are in force: what rows of the broadcast stream change, and what is made of their definitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from millstream.api.jobfile.rules import Rule, read_rule
from millstream.errors import InvalidStep, MillstreamError
from millstream.graph.operations.rules import DEFINITION, DELETED, RULE, VERSION, Patterns
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.records.batch import from_table
from millstream.records.codecs import batch_to_rows
from millstream.records.value_types import dict_of, list_of, tuple_of
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.epoch import Sought
from millstream.runtime.operators.pattern.matching import key_matcher
from millstream.state.entries import Entry
from millstream.state.pages import NEVER
from millstream.state.slots import Slot

_RULES, _GENERATION = 0, 1
_MOST_COMPILED = 10_000


def rule_slots() -> tuple[Slot, ...]:
    """The definitions by name, the newest of each last, and how many definitions there have been."""
    definition = tuple_of(int, int, int, str)
    return (
        Slot(name="rules", kind="rules", content=dict_of(str, list_of(definition))),
        Slot(name="generation", kind="value", content=int),
    )


class Definition(NamedTuple):
    """One version of a pattern, as it is kept."""

    version: int
    generation: int
    """Tells all definitions apart that ever came; partial matches belong to it."""
    replaced_at: int
    """When a newer version came; `NEVER` while it is in force."""
    text: str


class Active(NamedTuple):
    """A pattern that is looked for, or whose partial matches run out."""

    name: str
    version: int
    rule: Rule
    sought: Sought


class RuleBook:
    """What is made of definitions, kept for as long as the operator lives: a definition is compiled once."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Patterns)
        assert node.input_schema is not None
        self.node, self.on_update = node, node.operation.on_update
        self._rows, self._keys = node.input_schema, node.input_schema.select(node.keys)
        self._active: dict[tuple[str, Definition], Active] = {}

    def active(self, name: str, definition: Definition) -> Active:
        """A definition, ready to be looked for; one that was replaced begins no further match."""
        compiled = self._active.get((name, definition))
        if compiled is None:
            step = self.node.id
            rule = read_rule(definition.text, self._rows, self._keys, step=step, on_update=self.on_update)
            program = Program(rule.pattern, self._rows, step=step, is_lenient=True)
            program.version = str(definition.generation)
            if definition.replaced_at < NEVER:
                program.start_mask = 0
            matcher = key_matcher(program, self._rows, step=step, keeps_expired=bool(rule.timed_out))
            if len(self._active) >= _MOST_COMPILED:
                self._active.clear()
            compiled = Active(name, definition.version, rule, Sought(program, matcher, program.conditions.examine))
            self._active[name, definition] = compiled
        return compiled


class RuleSet:
    """The definitions of one epoch; rows of the broadcast stream change them alike in every subtask."""

    def __init__(self, book: RuleBook, work: EpochWork, shared: Entry) -> None:
        self._book, self._shared = book, shared
        held = shared.slots[_RULES] or {}
        self._held = {name: [Definition(*each) for each in stored] for name, stored in held.items()}
        self.has_dropped = False
        """Whether partial matches are to be forgotten."""
        # What is wrong with a row is said once, by the first subtask.
        nobody = StepCounts()
        ledger = Ledger(lambda _: nobody, work.times.now) if work.subtask else work.ledger
        self._counts = ledger.count(book.node.id)
        self._bad = ledger.bad_records(book.node.id, "dead_letter")
        self._drop_refused()

    def _drop_refused(self) -> None:
        """A definition that was accepted before and is refused now goes to the dead letters; the others go on."""
        for name, definitions in list(self._held.items()):
            try:
                for definition in definitions:
                    self._book.active(name, definition)
            except MillstreamError as problem:
                self._bad.refuse_result(
                    {RULE: name, VERSION: definitions[-1].version, DEFINITION: definitions[-1].text}, problem
                )
                self.has_dropped = True
                self._put(name, [])

    def active(self) -> list[Active]:
        """Everything to look for, by name and age."""
        return [
            self._book.active(name, definition)
            for name, definitions in sorted(self._held.items())
            for definition in definitions
        ]

    def generations(self) -> set[str]:
        """The names under which partial matches are kept."""
        return {str(definition.generation) for definitions in self._held.values() for definition in definitions}

    def retire(self, reached: int) -> None:
        """Forget replaced definitions whose last partial match has run out of time."""
        for name, definitions in list(self._held.items()):
            kept = [definition for definition in definitions if not self._is_over(name, definition, reached)]
            if len(kept) < len(definitions):
                self._put(name, kept)

    def _is_over(self, name: str, definition: Definition, reached: int) -> bool:
        if definition.replaced_at == NEVER:
            return False
        within = self._book.active(name, definition).rule.pattern.within
        assert within is not None, "only patterns with a time run out"
        return definition.replaced_at + within <= reached

    def update(self, tables: list[pa.Table], reached: int) -> None:
        """Apply rows of the broadcast stream in their order; one that is not usable is a dead letter."""
        for table in tables:
            rows = batch_to_rows(from_table(table).rows)
            self._counts.rows_in += len(rows)
            for row in rows:
                try:
                    self._apply(row, reached)
                except Exception as problem:
                    # Whatever is wrong with a definition, the job goes on.
                    self._bad.refuse(row, problem)
                else:
                    self._counts.passed += 1

    def _apply(self, row: dict[str, Any], reached: int) -> None:
        name, text, given = row[RULE], row[DEFINITION], row.get(VERSION)
        if not name or (text is None and not row.get(DELETED)):
            msg = "a row that brings a pattern needs a name and a definition"
            raise self._refused(msg, name)
        present = self._held.get(name, [])
        newest = present[-1] if present and present[-1].replaced_at == NEVER else None
        if newest is not None and given is not None and given < newest.version:
            msg = f"version {given} is older than version {newest.version}, which is in force"
            raise self._refused(msg, name)
        if row.get(DELETED):
            self.has_dropped |= bool(present)
            self._put(name, [])
            return
        version = given if given is not None else newest.version + 1 if newest is not None else 1
        if newest is not None and version == newest.version:
            if text != newest.text:
                msg = f"version {version} is in force with another definition"
                raise self._refused(msg, name)
            return
        self._add(name, present, Definition(version, (self._shared.slots[_GENERATION] or 0) + 1, NEVER, text), reached)

    def _add(self, name: str, present: list[Definition], definition: Definition, reached: int) -> None:
        self._book.active(name, definition)
        older: list[Definition] = []
        if self._book.on_update == "keep":
            older = [each._replace(replaced_at=min(each.replaced_at, reached)) for each in present]
        else:
            self.has_dropped |= bool(present)
        self._shared.slots[_GENERATION] = definition.generation
        self._put(name, [*older, definition])

    def _put(self, name: str, definitions: list[Definition]) -> None:
        self._held.pop(name, None)
        if definitions:
            self._held[name] = definitions
        self._shared.slots[_RULES] = {each: list(map(tuple, kept)) for each, kept in self._held.items()} or None
        self._shared.is_dirty = True

    def _refused(self, msg: str, name: str | None) -> InvalidStep:
        return InvalidStep(msg, code="STEP-189", step=self._book.node.id, found=repr(name), hint="correct the row")
