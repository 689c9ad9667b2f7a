"""Events: what they may hold, their written form, and their ids."""

import datetime as dt
import json
import uuid
from decimal import Decimal

import pytest
from pydantic import BaseModel

from millstream.agents import Event, InputEvent, MemoryRef, OutputEvent
from millstream.agents.events.codec import checked_copy, decode, encode


class Point(BaseModel):
    x: int
    tags: list[str] = []


class Blob(BaseModel):
    content: bytes


ODD = {
    "id": uuid.UUID(int=1),
    "bytes": b"\x00\xff",
    "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "day": dt.date(2026, 1, 1),
    "price": Decimal("1.10"),
    "large": 2**70,
    "inf": float("inf"),
    "$": {"v": 1, "$": "uuid"},
    "point": Point(x=1, tags=["a"]),
    "ref": MemoryRef(path="a.b"),
    "list": [[{}], None, True, 1, 1.0],
}


def test_every_value_comes_back_as_it_was():
    back = decode(encode(ODD))
    assert back == ODD
    assert {name: type(each) for name, each in back.items()} == {name: type(each) for name, each in ODD.items()}
    json.loads(encode(ODD))


def test_copies_share_nothing():
    copy = checked_copy(ODD, "it")
    assert copy == ODD
    copy["point"].tags.append("b")
    copy["list"][0].append(1)
    assert ODD["point"].tags == ["a"]
    assert ODD["list"][0] == [{}]


def test_a_model_whose_class_is_gone_comes_back_as_a_dict():
    written = encode(Point(x=1)).replace(b":Point", b":Gone")
    assert decode(written) == {"x": 1, "tags": []}


def test_what_is_no_model_is_not_made_one():
    written = encode(Point(x=1)).replace(f"{__name__}:Point".encode(), b"os:system")
    assert decode(written) == {"x": 1, "tags": []}


@pytest.mark.parametrize("value", [{1, 2}, object(), {1: 2}, [lambda: 0], Decimal, {"a": {"b": (1, {2})}}])
def test_what_has_no_written_form_is_refused_when_the_event_is_built(value):
    with pytest.raises(TypeError, match="event 'x'"):
        Event("x", {"value": value})
    with pytest.raises(TypeError, match="event 'x'"):
        Event("x", more=value)
    event = Event("x")
    with pytest.raises(TypeError, match="event 'x'"):
        event.attributes = {"value": value}
    with pytest.raises(TypeError, match="event 'x'"):
        event.more = value
    with pytest.raises(TypeError, match="event 'x'"):
        event.set_attr("value", value)


def test_attributes_are_a_dict_and_a_type_is_text():
    with pytest.raises(TypeError, match="are a dict"):
        Event("x", [1])
    with pytest.raises(ValueError, match="valid string"):
        Event(3)
    with pytest.raises(TypeError, match="which has no written form"):
        Event("x", {"p": Blob(content=b"\xff")})


def test_an_event_is_copied_into_its_class():
    class Ordered(Event):
        EVENT_TYPE = "ordered"

        @property
        def amount(self):
            return self.attributes["amount"]

    event = Event("ordered", {"amount": 3}, note="n")
    mine = Ordered.from_event(event)
    assert (mine.amount, mine.id, mine.note, mine.type) == (3, event.id, "n", "ordered")
    mine.set_attr("amount", 4)
    assert event.get_attr("amount") == 3


def test_json():
    event = Event("ordered", {"amount": 3})
    back = Event.from_json(event.model_dump_json())
    assert (back, back.id) == (event, event.id)
    for wrong in ("[]", "{}", '{"type": 3}', "3"):
        with pytest.raises(ValueError, match="JSON object with a type"):
            Event.from_json(wrong)


def test_ids():
    event = InputEvent({"a": 1})
    assert event.id == event.id
    assert InputEvent({"a": 1}).id != event.id
    with pytest.raises(AttributeError):
        event.id = uuid.uuid4()
    assert (event.get_type(), OutputEvent(1).get_type()) == ("_input_event", "_output_event")
    assert (event.input, OutputEvent(1).output) == ({"a": 1}, 1)
