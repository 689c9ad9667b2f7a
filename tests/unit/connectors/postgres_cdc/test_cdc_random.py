"""Random changes of a table, read by owners that come and go: what the rows add up to is the table, whenever it is compared."""

import random
from collections import Counter

import pytest
from tests.unit.connectors.sources.source_contract import walked

SEEDS = range(4)


def change(source, random, ids):
    """One random statement; keys are few, so that rows go and come back and change their keys."""
    table, id = source.table, random.randrange(12)
    match random.choice("iiuudk") if ids else "i":
        case "i" if id not in ids:
            ids.add(id)
            return f"INSERT INTO {table} VALUES ({id}, 'c{random.randrange(3)}', {random.randrange(100)})"
        case "u":
            return f"UPDATE {table} SET amount = amount + 1, customer = 'c{random.randrange(3)}' WHERE id <= {id}"
        case "d":
            ids.discard(id)
            return f"DELETE FROM {table} WHERE id = {id}"
        case "k" if id not in ids:
            old = random.choice(sorted(ids))
            ids.remove(old)
            ids.add(id)
            return f"UPDATE {table} SET id = {id} WHERE id = {old}"
    return "SELECT 1"


def some_changes(source, random, ids, note=lambda: None):
    """A few transactions, of which some are rolled back; `note` is called behind each."""
    for _ in range(random.randrange(1, 6)):
        is_kept, before = random.random() < 0.8, set(ids)
        statements = [change(source, random, ids) for _ in range(random.randrange(1, 5))]
        source.do(*statements) if is_kept else rolled_back(source, statements)
        if not is_kept:
            ids.clear()
            ids.update(before)
        note()


def rolled_back(source, statements):
    with source.connection.transaction(force_rollback=True):
        for statement in statements:
            source.connection.execute(statement)


class ByKey:
    """A table of the newest rows."""

    def __init__(self):
        self.rows = {}

    def apply(self, row):
        if row["op"] == "delete":
            self.rows.pop(row["id"], None)
        else:
            self.rows[row["id"]] = (row["customer"], row["amount"])

    def equals(self, content):
        return self.rows == content


class Whole:
    """A bag of rows that came and did not go."""

    def __init__(self):
        self.rows = Counter()

    def apply(self, row):
        value = (row["id"], row["customer"], row["amount"])
        self.rows[value] += -1 if row["op"] == "delete" else 1
        assert self.rows[value] in {0, 1}

    def equals(self, content):
        return +self.rows == Counter((id, *rest) for id, rest in content.items())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("images", "target"), [("after", ByKey), ("both", Whole)])
def test_random_changes(make_source, open_owner, seed, images, target):
    chosen = random.Random(f"{images} {seed}")
    source = make_source(images=images)
    source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY {'FULL' if images == 'both' else 'DEFAULT'}")
    ids, table, token = set(), target(), 1
    some_changes(source, chosen, ids)
    opened = open_owner(source)
    position = opened.initial()
    for _ in range(12):
        some_changes(source, chosen, ids)
        content = source.content()
        while not table.equals(content):
            behind, position = position, walked_once(opened, position, chosen.choice((1, 3, 1000)), table)
            opened.enumerator.acknowledge(position)
            if chosen.random() < 0.3:
                token += 1
                opened = open_owner(source, token=token)
                opened.enumerator.acknowledge(position)
                opened.read(behind, position)  # run again, to rebuild state
        assert table.equals(content)


def walked_once(opened, position, credit, table):
    path, rows = walked(opened, position, credit, until=1)
    for row in rows:
        table.apply(row)
    return path[-1]
