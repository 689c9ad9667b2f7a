"""Text to syntax tree: Spark's tokens and grammar from sqlglot, every function kept under the name the user wrote."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from millstream.graph.expressions.refusal import CONSTRUCT, LIMIT, LITERAL, PARSE, Site

MAX_LENGTH = 10_000
MAX_DEPTH = 128
MAX_BRACKETS = 48

_BASE: Any = Spark.parser_class
_KEPT_PARSERS = ("CAST", "TRY_CAST", "TRIM")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_REFUSED_TOKENS = {
    TokenType.SEMICOLON: "';'",
    TokenType.PARAMETER: "a parameter",
    TokenType.PLACEHOLDER: "a placeholder",
}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


class NamedFunctions(_BASE):  # type: ignore[misc]
    """Spark's grammar without sqlglot's own functions: each call stays `Anonymous`, so that our table decides."""

    FUNCTIONS: dict[str, Any] = {}
    FUNCTION_PARSERS = {name: _BASE.FUNCTION_PARSERS[name] for name in _KEPT_PARSERS}
    NO_PAREN_FUNCTIONS: dict[Any, Any] = {}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": _BASE.NO_PAREN_FUNCTION_PARSERS["CASE"]}


def read(site: Site) -> exp.Expr:
    """The syntax tree of one expression, within the limits of length and depth."""
    if not isinstance(site.text, str) or not site.text.strip():
        raise site.refuse(PARSE, "is empty", hint="write an SQL expression such as amount > 0")
    if len(site.text) > MAX_LENGTH:
        problem = f"is longer than {MAX_LENGTH} characters"
        raise site.refuse(LIMIT, problem, found=len(site.text), hint="split it into several steps")
    tree = _parsed(site)
    if depth_of(tree) > MAX_DEPTH:
        raise site.refuse(LIMIT, f"is nested deeper than {MAX_DEPTH} levels", hint="split it into several steps")
    return tree


def _parsed(site: Site) -> exp.Expr:
    dialect = Spark()
    try:
        tokens = with_suffixes(checked_tokens(dialect.tokenize(site.text), site))
        parser: Parser = NamedFunctions(dialect=dialect)
        trees = [tree for tree in parser.parse(tokens, site.text) if tree is not None]
    except SqlglotError as problem:
        raise site.refuse(
            PARSE, "cannot be read as Spark SQL", found=headline(problem), hint="correct the text"
        ) from None
    except RecursionError:
        raise site.refuse(LIMIT, "is nested too deeply to be read", hint="split it into several steps") from None
    if len(trees) != 1:
        raise site.refuse(PARSE, "is not one expression", found=f"{len(trees)} expressions", hint="write exactly one")
    tree = trees[0]
    assert isinstance(tree, exp.Expr), f"sqlglot returned {type(tree).__name__}"
    return tree


def checked_tokens(tokens: list[Token], site: Site) -> list[Token]:
    """Tokens within the limits, none of them refused, with the values of string literals as Spark reads them."""
    depth, before = 0, None
    for token in tokens:
        if token.token_type in _REFUSED_TOKENS:
            what = _REFUSED_TOKENS[token.token_type]
            raise site.refuse(CONSTRUCT, f"{what} is not allowed", hint="write one plain expression")
        if token.comments:
            raise site.refuse(CONSTRUCT, "comments are not allowed", hint="put the comment beside the step")
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_BRACKETS:
            raise site.refuse(
                LIMIT, f"has more than {MAX_BRACKETS} nested brackets", hint="split it into several steps"
            )
        if token.token_type == TokenType.STRING:
            if before == TokenType.STRING:
                raise site.refuse(
                    CONSTRUCT, "two string literals stand side by side", hint=r"write \' for a quote, || to join"
                )
            token.text = _unescaped(site.text[token.start : token.end + 1], site)
        before = token.token_type
    return tokens


def with_suffixes(tokens: list[Token]) -> list[Token]:
    """Keep `2L` one literal: sqlglot's tokens say `2::BIGINT`, but Spark types a literal otherwise than a cast."""
    kept: list[Token] = []
    for token in tokens:
        if kept and token.start == kept[-1].start:
            kept[-1].text += "" if token.token_type == TokenType.DCOLON else token.text
        else:
            kept.append(token)
    return kept


def _unescaped(quoted: str, site: Site) -> str:
    """The value of a string literal by Spark's rules: an unknown escape is the character itself."""
    value = _ESCAPE.sub(_escape, quoted[1:-1])
    if "\0" in value:
        raise site.refuse(LITERAL, "a string literal holds the character NUL", hint="use a Python step")
    return value


def _escape(match: re.Match[str]) -> str:
    body = match.group(1)
    if body[0] in "uU" and len(body) > 1:
        return chr(int(body[1:], 16))
    if len(body) == 3:
        return chr(int(body, 8))
    return _ESCAPES.get(body, body)


def headline(problem: SqlglotError) -> str:
    """The first line of what sqlglot complains about."""
    return re.sub(r"\x1b\[\d+m", "", str(problem)).split("\n")[0]


def depth_of(tree: exp.Expr) -> int:
    """How deeply a tree is nested; above the limit, how far it was followed."""
    depth, level = 0, [tree]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [child for node in level for child in node.iter_expressions()]
    return depth


def node_name(node: exp.Expr) -> str:
    """A syntax node in words, for messages: `RegexpLike` becomes `regexp like`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
