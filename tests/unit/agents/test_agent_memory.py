"""Memory: values, paths, objects, references, and who sees which writes."""

import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.agents import MemoryObject, MemoryRef, MemoryType
from millstream.agents.memory.tree import MemoryTree, tree_of
from millstream.agents.memory.view import PrivateMemory, SharedMemory

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def memory():
    return MemoryObject(SharedMemory(MemoryTree()), MemoryType.SHORT_TERM)


def stored(memory):
    """What another process reads."""
    return MemoryObject(SharedMemory(tree_of(memory._memory.tree.encoded())), MemoryType.SHORT_TERM)


@given(VALUES)
def test_every_value_comes_back_as_it_was(value):
    memory = MemoryObject(SharedMemory(MemoryTree()), MemoryType.SHORT_TERM)
    memory.set("a.b", value)
    found = stored(memory).get("a.b")
    assert found == value
    assert type(found) is type(value)


def test_numbers_that_json_does_not_know():
    memory = MemoryObject(SharedMemory(MemoryTree()), MemoryType.SHORT_TERM)
    memory.set("large", 2**80)
    memory.set("odd", [math.inf, -math.inf, math.nan])
    back = stored(memory)
    assert back.get("large") == 2**80
    assert back.get("odd")[:2] == [math.inf, -math.inf]
    assert math.isnan(back.get("odd")[2])


class Text(str):
    """Looks like text and is not."""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (uuid.uuid4(), "'p' is a UUID"),
        ((1, 2), "'p' is a tuple"),
        ({"k": [1, 2, 3, {4}]}, r"'p'\['k'\]\[3\] is a set"),
        ({1: 2}, "'p' is a dict with keys that are no text"),
        (Text("x"), "'p' is a Text"),
        (MemoryRef(path="x"), "'p' is a MemoryRef"),
    ],
)
def test_what_memory_does_not_hold_is_refused_with_its_place(memory, value, place):
    with pytest.raises(TypeError, match=f"value at memory path {place}"):
        memory.set("p", value)
    assert not memory.is_exist("p")


def test_an_object_is_no_value(memory):
    with pytest.raises(TypeError, match="use new_object"):
        memory.set("p", memory)


def test_paths(memory):
    memory.set("a.b.c", 1)
    memory.set(["a", "x.y"], 2)
    assert memory.get("a").get_field_names() == ["b", "x.y"]
    assert memory.get("a.b").get_fields() == {"c": 1}
    assert memory.get(["a", "x.y"]) == 2
    assert memory.get("a.x.y") is None
    assert memory.get("a.x.y", 7) == 7
    assert memory.get("a").get("b.c") == 1
    for wrong in ("", "a..b", [], ["a", ""]):
        with pytest.raises(ValueError, match="no path of memory"):
            memory.set(wrong, 1)


def test_values_and_objects_do_not_take_each_others_place(memory):
    memory.set("value", 1)
    memory.new_object("object").set("x", 2)
    with pytest.raises(ValueError, match="nothing can stand below"):
        memory.set("value.below", 1)
    with pytest.raises(ValueError, match="is an object"):
        memory.set("object", 1)
    with pytest.raises(ValueError, match="overwrite=True"):
        memory.new_object("value")
    assert memory.new_object("object").get("x") == 2
    assert memory.new_object("object", overwrite=True).get_fields() == {}
    assert memory.new_object("value", overwrite=True).get_fields() == {}


def test_what_is_read_is_a_copy(memory):
    given = {"list": [1]}
    memory.set("p", given)
    given["list"].append(2)
    memory.get("p")["list"].append(3)
    assert memory.get("p") == {"list": [1]}


def test_delete_append_increment_clear(memory):
    memory.append("list", 1, [2])
    memory.append("list", 3)
    assert memory.get("list") == [1, [2], 3]
    assert memory.increment("n") == 1
    assert memory.increment("n", 1.5) == 2.5
    assert memory.delete("n") is True
    assert memory.delete("n") is False
    assert memory.delete("no.such") is False
    with pytest.raises(ValueError, match="no list"):
        memory.set("v", 1)
        memory.append("v", 2)
    with pytest.raises(ValueError, match="no number"):
        memory.increment("list")
    memory.clear()
    assert memory.get_fields() == {}
    assert memory._memory.tree.encoded() is None


def test_references(memory):
    reference = memory.set("a.b", 1)
    assert reference == MemoryRef.create(MemoryType.SHORT_TERM, "a.b")
    assert hash(reference) == hash(MemoryRef(path="a.b"))
    assert memory.get(reference) == 1
    assert memory.get("a").get(reference) == 1
    assert memory.get(reference.model_dump()) == 1
    assert memory.get(MemoryRef(path="gone")) is None
    assert memory.get(MemoryRef(path="a")).get("b") == 1


def test_a_tree_goes_back_to_where_it_was():
    tree = MemoryTree()
    memory = MemoryObject(SharedMemory(tree), MemoryType.SHORT_TERM)
    memory.append("kept.list", 1)
    tree.keep()
    memory.append("kept.list", 2)
    memory.increment("n")
    memory.delete("kept.list")
    tree.undo()
    assert memory.get("kept.list") == [1]
    assert not memory.is_exist("n")


def test_others_see_what_was_handed_over():
    tree = MemoryTree()
    mine, other = PrivateMemory(tree), PrivateMemory(tree)
    first, second = (MemoryObject(each, MemoryType.SHORT_TERM) for each in (mine, other))
    first.increment("n")
    second.increment("n", 10)
    assert (first.get("n"), second.get("n")) == (1, 10)
    mine.hand_over()
    assert (first.get("n"), second.get("n")) == (1, 11)
    other.hand_over()
    assert (first.get("n"), second.get("n"), tree.find(("n",))) == (11, 11, 11)


WRITES = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["append", "increment", "set", "delete", "hand"]), st.integers(0, 9)),
    max_size=25,
)


@given(WRITES)
def test_private_writes_end_as_if_they_had_been_done_when_they_were_handed_over(writes):
    tree, plain = MemoryTree(), MemoryTree()
    views = [PrivateMemory(tree), PrivateMemory(tree)]
    held = [[], []]
    for who, kind, number in [*writes, (0, "hand", 0), (1, "hand", 0)]:
        if kind == "hand":
            views[who].hand_over()
            for write in held[who]:
                write(MemoryObject(SharedMemory(plain), MemoryType.SHORT_TERM))
            held[who].clear()
            continue
        calls = {
            "append": lambda memory, number=number: memory.append("list", number),
            "increment": lambda memory, number=number: memory.increment("n", number),
            "set": lambda memory, number=number: memory.set(f"v{number % 3}", number),
            "delete": lambda memory, number=number: memory.delete(f"v{number % 3}"),
        }
        calls[kind](MemoryObject(views[who], MemoryType.SHORT_TERM))
        held[who].append(calls[kind])
    assert tree.root == plain.root
