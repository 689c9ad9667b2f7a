"""Text to a checked tree: Spark's grammar, with the window tables of Flink, and one SELECT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.api.sql.clauses import check_clauses
from millstream.api.sql.refusal import CLAUSE, NOT_A_QUERY, Place
from millstream.errors import InvalidExpression, InvalidStep
from millstream.graph.expressions import reading
from millstream.graph.expressions.refusal import Site, shortened

WINDOW_TABLES = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_FUNCTION_WORDS = frozenset({"SESSION", "WINDOW"})
"""Keywords that stand for a function where a bracket follows."""
_BEGINNINGS = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN})
"""What a query begins with; sqlglot writes a warning about other statements that it does not know."""


def _window_table(name: str) -> Callable[[Any], exp.Expr]:
    """Reads what stands in the brackets of `TUMBLE(TABLE stream, DESCRIPTOR(ts), ...)`, or of `TUMBLE(ts, ...)` in GROUP BY."""

    def parse(parser: Any) -> exp.Expr:
        if not parser._match(TokenType.TABLE):
            return exp.Anonymous(this=name, expressions=parser._parse_csv(parser._parse_disjunction))
        table = parser._parse_table_parts()
        if not parser._match(TokenType.PARTITION_BY) and not parser._match(TokenType.COMMA):
            parser.raise_error(f"{name} needs a comma behind its table")
        return exp.Anonymous(this=name, expressions=[table, *parser._parse_csv(parser._parse_disjunction)])

    return parse


class _Statements(reading.NamedFunctions):
    """Statements in which functions keep their names and window tables are read as Flink writes them."""

    FUNCTION_PARSERS = {
        **reading.NamedFunctions.FUNCTION_PARSERS,
        **{name: _window_table(name) for name in WINDOW_TABLES},
        "TABLE": lambda parser: parser._parse_function(),
    }


def read_statement(text: str, step: str | None) -> tuple[exp.Expr, Place]:
    """The tree of one SELECT in which every clause is known, and the place for later refusals.

    Raises:
        InvalidStep: the text does not parse, is not one SELECT, or has a clause that is not offered.
    """
    place = Place(text=str(text), step=step)
    try:
        tokens = _tokens(text, step) if isinstance(text, str) else []
        if not tokens:
            hint = "write sql('SELECT ... FROM stream')"
            raise place.refuse(NOT_A_QUERY, "is empty", found=repr(text), hint=hint)
        place = Place(text=text, step=step, tokens=tuple(tokens))
        _check_tokens(tokens, place)
        trees = [tree for tree in _Statements(dialect=Spark()).parse(tokens, text) if tree is not None]
    except SqlglotError as problem:
        headline = reading.headline(problem)
        raise place.refuse(NOT_A_QUERY, "cannot be read as SQL", found=headline, hint="correct the text") from None
    except RecursionError:
        raise place.refuse(NOT_A_QUERY, "is nested too deeply", hint="split it into several steps") from None
    tree = _only(trees, place)
    check_clauses(tree, place)
    _check_with(tree, place)
    return tree, place


def _check_with(tree: exp.Expr, place: Place) -> None:
    for inner in tree.find_all(exp.Select, exp.Union):
        if inner is not tree and inner.args.get("with_"):
            hint = "write it before the whole statement"
            raise place.refuse(CLAUSE, "WITH inside brackets is not offered", at=inner.args["with_"], hint=hint)


def _tokens(text: str, step: str | None) -> list[Token]:
    """Tokens as in expressions; comments have no meaning, and one `;` may stand at the end."""
    tokens = Spark().tokenize(text)
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    for token, behind in zip(tokens, [*tokens[1:], None], strict=False):
        token.comments = []
        is_called = behind is not None and behind.token_type == TokenType.L_PAREN
        if is_called and token.text.upper() in _FUNCTION_WORDS:
            token.token_type = TokenType.VAR
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise Place(text=text, step=step, tokens=tuple(tokens)).refuse(
            NOT_A_QUERY, "holds several statements", at=TokenType.SEMICOLON, hint="write one sql step for each"
        )
    return tokens


def _check_tokens(tokens: list[Token], place: Place) -> None:
    if tokens[0].token_type not in _BEGINNINGS:
        raise _no_query(tokens[0].text, place)
    for token in tokens:
        if token.token_type == TokenType.VAR and token.text.upper() == "MATCH_RECOGNIZE":
            token.token_type = TokenType.MATCH_RECOGNIZE
            hint = "use .key_by(...).pattern(ms.pattern.begin(...))"
            raise place.refuse(CLAUSE, "MATCH_RECOGNIZE is not offered", at=TokenType.MATCH_RECOGNIZE, hint=hint)
    if len(place.text) > reading.MAX_LENGTH:
        problem = f"is longer than {reading.MAX_LENGTH} characters"
        raise place.refuse(NOT_A_QUERY, problem, found=len(place.text), hint="split it into several steps")
    try:
        site = Site(text=place.text, step=place.step, what="statement")
        tokens[:] = reading.with_suffixes(reading.checked_tokens(tokens, site))
    except InvalidExpression as problem:
        reason = problem.message.removeprefix(f"statement {shortened(place.text)!r}: ")
        raise place.refuse(NOT_A_QUERY, reason, found=problem.found, hint=problem.hint) from None


def _only(trees: list[Any], place: Place) -> exp.Expr:
    tree = trees[0] if len(trees) == 1 else None
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(key) for key in tree.args if key != "this"):
        tree = tree.this
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise _no_query("nothing" if tree is None else reading.node_name(tree), place)
    if reading.depth_of(tree) > reading.MAX_DEPTH:
        problem = f"is nested deeper than {reading.MAX_DEPTH} levels"
        raise place.refuse(NOT_A_QUERY, problem, hint="split it into several steps")
    return tree


def _no_query(beginning: str, place: Place) -> InvalidStep:
    hint = "write SELECT ... FROM stream; sources and sinks are steps of their own"
    return place.refuse(NOT_A_QUERY, "is not a SELECT", found=beginning, hint=hint)
