"""Nothing of a statement is ignored: whatever sqlglot can find beside what is offered is refused."""

import pytest
from sqlglot import exp

from millstream.api.sql.clauses import _OFFERED, check_clauses
from millstream.api.sql.parse import read_statement
from millstream.api.sql.refusal import Place
from millstream.api.sql.writing import text_of
from millstream.errors import InvalidStep
from millstream.graph.expressions import reading
from millstream.graph.expressions.refusal import Site

PLACE = Place(text="SELECT", step="q")
BESIDE = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind, offered in _OFFERED.items()
    for name in kind.arg_types
    if name not in offered
]


@pytest.mark.parametrize(("kind", "name"), BESIDE)
def test_what_is_not_offered_is_refused(kind, name):
    with pytest.raises(InvalidStep) as caught:
        check_clauses(kind(**{name: exp.Literal.number(1)}), PLACE)
    assert caught.value.code == "STEP-141"
    assert caught.value.hint


def test_there_is_much_that_is_not_offered():
    assert len(BESIDE) > 60
    assert {"order", "limit", "qualify", "laterals"} <= set(exp.Select.arg_types) - _OFFERED[exp.Select]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM s -- a comment",
        "SELECT /*+ BROADCAST(s) */ a FROM s /* another */ ;",
        "(SELECT a FROM s)",
        "SELECT ALL a FROM s",
        "FROM s SELECT a",
    ],
)
def test_what_says_nothing_about_the_result_is_harmless(text):
    tree, _ = read_statement(text, "q")
    assert [node.name for node in tree.expressions] == ["a"]


EXPRESSIONS = [
    "a + b * 2 - -3", "(a + b) * 2", "a DIV 2", "a || 'x'", "a <=> b", "NOT a IS NULL", "a NOT IN (1, 2)", "- -a",
    "CASE x WHEN 1 THEN 'a' ELSE 'b' END", "CAST(a AS DECIMAL(10, 2))", "TRY_CAST(a AS date)", "a::long", "a[0].b.c",
    "m['k']", "trim(LEADING 'x' FROM s)", "trim(s)", "trim(BOTH FROM s)", "2L", "1.5BD", "1e3", r"'it\'s \n \\ x'",
    r"r'raw\d'", "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 12:00:00'", "`we ird` + `a``b`", "x NOT LIKE 'a!%' ESCAPE '!'",
    "x RLIKE 'a'", "`order` = `end`", "if(a, 1, 2)", "x ILIKE 'A%'", "a BETWEEN 1 AND 2 OR b IS NOT TRUE",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_taken_out_unchanged(text):
    """In meaning: the text that stands in the step gives the tree that stood in the statement."""
    tree, place = read_statement(f"SELECT {text} AS made FROM s", "q")
    inner = tree.expressions[0].this
    written = reading.read(Site(text=text_of(inner, place), step=None))
    wanted = reading.read(Site(text=text, step=None))
    assert plain(written) == plain(wanted) == plain(inner)


def plain(tree):
    """A raw string is only another way to write a literal."""
    return tree.transform(lambda node: exp.Literal.string(node.this) if isinstance(node, exp.RawString) else node)


def test_an_expression_that_would_change_is_refused():
    """`a b` without quotes would be read as column `a` under the name `b`."""
    with pytest.raises(InvalidStep) as caught:
        text_of(exp.Column(this=exp.to_identifier("a b", quoted=False)), PLACE)
    assert caught.value.code == "STEP-153"
