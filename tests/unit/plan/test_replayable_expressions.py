"""No expression may answer differently when an epoch is replayed: such functions are refused by name, with the reason."""

import pytest

from millstream.errors import InvalidExpression
from millstream.graph.expressions.catalogue import FUNCTIONS, NOT_DETERMINISTIC
from millstream.graph.expressions.expression import parse_expression
from millstream.model.schema import schema_of

SCHEMA = schema_of("a long")


@pytest.mark.parametrize("name", sorted(NOT_DETERMINISTIC))
@pytest.mark.parametrize("form", ["{}()", "a = {}()", "coalesce(null, {}())"])
def test_a_call_is_refused_with_the_reason(name, form):
    with pytest.raises(InvalidExpression, match="another answer when an epoch is replayed") as caught:
        parse_expression(form.format(name), SCHEMA, step="step")
    assert caught.value.code == "EXPR-006"
    assert caught.value.step == "step"
    assert repr(name) in caught.value.message


@pytest.mark.parametrize("name", ["current_timestamp", "current_date", "localtimestamp", "current_user"])
def test_so_is_the_form_without_brackets(name):
    with pytest.raises(InvalidExpression, match="replayed"):
        parse_expression(name, SCHEMA)


@pytest.mark.parametrize("name", ["rand", "uuid", "now", "current_timestamp", "random", "randn", "shuffle"])
def test_the_usual_ones_are_in_the_list(name):
    assert name in NOT_DETERMINISTIC


def test_nothing_that_is_allowed_is_in_the_list():
    assert not NOT_DETERMINISTIC & FUNCTIONS.keys()


def test_a_column_of_that_name_is_a_column():
    assert parse_expression("now", schema_of("now long")).columns == ("now",)
