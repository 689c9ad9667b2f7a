"""How a statement is refused: the clause, where it stands, and what would work."""

from __future__ import annotations

import dataclasses

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millstream.errors import InvalidStep
from millstream.graph.expressions.refusal import shortened

NOT_A_QUERY = "STEP-140"
CLAUSE = "STEP-141"
TABLE = "STEP-142"
COLUMN = "STEP-143"
GROUPING = "STEP-144"
WINDOW = "STEP-145"
EVENT_TIME = "STEP-146"
JOIN = "STEP-147"
BOUNDS = "STEP-148"
RANK = "STEP-149"
OPTION = "STEP-150"
DURATION = "STEP-151"
UPDATES = "STEP-152"
WRITING = "STEP-153"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The statement that is read, so that every refusal can show it and say where in it the problem stands."""

    text: str
    step: str | None
    tokens: tuple[Token, ...] = ()

    def refuse(
        self,
        code: str,
        problem: str,
        *,
        at: exp.Expr | TokenType | None = None,
        found: object = None,
        known: object = None,
        hint: str | None = None,
    ) -> InvalidStep:
        """The error to raise; `at` is the node, or the keyword, that is refused."""
        msg = f"statement {shortened(' '.join(self.text.split()))!r}: {problem}{self._position(at)}"
        return InvalidStep(msg, code=code, step=self.step, found=found, known=known, hint=hint)

    def _position(self, at: exp.Expr | TokenType | None) -> str:
        start = None
        if isinstance(at, TokenType):
            start = next((token.start for token in self.tokens if token.token_type == at), None)
        elif at is not None:
            start = min((node.meta["start"] for node in at.walk() if "start" in node.meta), default=None)
        if start is None:
            return ""
        line = self.text.count("\n", 0, start) + 1
        return f" (line {line}, column {start - self.text.rfind(chr(10), 0, start)})"
