"""Which letters a command means, and what kind of error each tells of."""

from collections import Counter

import pytest

from millstream.errors import InvalidStep
from millstream.inspect.letters.letter import letter_of, told
from millstream.inspect.letters.summary import chosen


def letters(*errors):
    made = [letter_of({"step": "m", "error": error, "record": str(number)}) for number, error in enumerate(errors)]
    return told(made, Counter(), Counter())


def test_a_letter_is_meant_by_as_much_of_its_id_as_is_its_own():
    box = letters(*("ValueError: x" for _ in range(40)))
    wanted = box[7].letter.id
    assert [each.letter.id for each in chosen(box, ids=[wanted[:10], wanted])] == [wanted]


def test_nobody_means_all_letters_by_an_empty_id():
    """As of a variable of a script that was never set: `purge --id "$ID" --yes`."""
    for box in (letters("ValueError: x"), letters("ValueError: x", "ValueError: y")):
        with pytest.raises(InvalidStep, match=r"DLQ-006.*no letter has that id; found ''"):
            chosen(box, ids=[""])


def test_a_beginning_of_several_ids_means_none_of_them():
    box = letters(*("ValueError: x" for _ in range(40)))
    several = next(start for start, n in Counter(each.letter.id[0] for each in box).items() if n > 1)
    with pytest.raises(InvalidStep, match=r"DLQ-006.*letters of several ids.*give more of the id"):
        chosen(box, ids=[several])
    alike = [*letters("KeyError: x"), *letters("KeyError: x")]
    assert len(chosen(alike, ids=[alike[0].letter.id[:3]])) == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ValueError: no number: x", "ValueError"),
        (
            "column 'n' has a value of another type; found 'bad7' (str); known: long",
            "column 'n' has a value of another type",
        ),
        ("not json: Expecting value: line 1", "not json"),
    ],
)
def test_errors_of_one_kind_differ_in_what_was_found(error, kind):
    assert letters(error)[0].letter.kind == kind
