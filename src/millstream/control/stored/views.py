"""What a node answers about stored state and dead letters: it looks up where they lie, and lets a process read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from millstream.contract.stored_questions import (
    DifferenceWanted,
    EntriesWanted,
    LettersWanted,
    StatePlace,
    StepsWanted,
    StoredQuestion,
)
from millstream.control.act import reading
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.database import Metadata
from millstream.control.nodes.placing import Places, SecretsOfRun, with_code
from millstream.control.stored.places import StateOf, letters_spec, place_of
from millstream.control.stored.questions import ChannelQuestion, LettersAsked, StateAsked
from millstream.control.stored.readers import StoredReaders
from millstream.errors import ExternalFailure, MillstreamError

_QUESTION: msgspec.json.Decoder[ChannelQuestion] = msgspec.json.Decoder(ChannelQuestion)


class StoredViews:
    """Answers questions that need files which this node may see."""

    def __init__(self, metadata: Metadata, places: Places, secrets: SecretsOfRun, readers: StoredReaders) -> None:
        self._metadata, self._places, self._secrets, self._readers = metadata, places, secrets, readers

    def answer(self, body: bytes) -> dict[str, Any]:
        """The value, or the error as its fields: whoever asked raises it again."""
        try:
            asked = _QUESTION.decode(body)
            if isinstance(asked, LettersAsked):
                return {"value": self._readers.ask(self._letters(asked), alone=True)}
            return {"value": self._readers.ask(self._state(asked))}
        except MillstreamError as problem:
            return _told(problem)
        except (msgspec.MsgspecError, OSError) as problem:
            msg = "the node cannot answer what it was asked"
            hint = "run the same version on servers and nodes, and see the log of the node"
            return _told(ExternalFailure(msg, code="CTL-146", found=f"{type(problem).__name__}: {problem}", hint=hint))

    def _state(self, asked: StateAsked) -> StoredQuestion:
        if asked.what == "steps":
            return StepsWanted(place=self._place(asked.of), counted=asked.counted)
        if asked.what == "difference":
            places = {"a": self._place(asked.of), "b": self._place(asked.other)}
            return DifferenceWanted(**places, step=asked.step, limit=asked.limit)
        return EntriesWanted(
            place=self._place(asked.of),
            step=asked.step or "",
            state=asked.state,
            key=asked.key,
            prefix=asked.prefix,
            limit=asked.limit,
            group=asked.group,
            passed=asked.passed,
        )

    def _place(self, of: StateOf) -> StatePlace:
        with reading(self._metadata) as act:
            return place_of(act, of, self._places.checkpoints)

    def _letters(self, asked: LettersAsked) -> StoredQuestion:
        with reading(self._metadata) as act:
            run = run_of(act, asked.run)
            spec = letters_spec(act, run, self._places)
        secrets = self._known(run.job_id, spec.secret_names)
        return LettersWanted(
            spec=with_code(spec, self._places),
            secrets=dict(secrets),
            act=asked.act,
            chosen=asked.chosen,
            limit=asked.limit,
            passed=asked.passed,
            payload=asked.payload,
            dry=asked.dry,
        )

    def _known(self, job_id: int, names: Collection[str]) -> Mapping[str, str]:
        return self._secrets(job_id, names) if names else {}


def _told(problem: MillstreamError) -> dict[str, Any]:
    return {"error": {**problem.fields(), "kind": type(problem).__name__, "domain": problem.domain}}


def encoded(answer: dict[str, Any]) -> bytes:
    """An answer as it travels."""
    return json.dumps(answer).encode()
