"""Jobs as YAML or JSON files: every step goes through the public API, so checks and messages are the same.

An error also says where in the file it was caused: the number, name and line of the step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from millstream.api.job import Job
from millstream.api.jobfile.dag import SHAPE, Beside, Normalised, is_dag, normalised
from millstream.api.jobfile.document import read_document
from millstream.api.jobfile.forms import flag, refuse_unknown, wrong_form
from millstream.api.jobfile.kinds import KINDS
from millstream.api.jobfile.loaded_steps import LoadedSteps
from millstream.api.jobfile.written_step import WrittenStep
from millstream.errors import InvalidExpression, InvalidPlan, InvalidStep
from millstream.plan.flink_keys import refuse_flink_keys

_JOB_KEYS = (
    "job",
    "guarantee",
    "epoch_interval",
    "rows_per_epoch",
    "parallelism",
    "max_parallelism",
    "on_stop",
    "chaining",
    "mode",
    "params",
    "carry",
    "steps",
)
_CHAIN = "start_new_chain"


def load_job(
    source: str | Path,
    *,
    name: str | None = None,
    module: str | None = None,
    connectors: Mapping[str, Mapping[str, Any]] | None = None,
) -> Job:
    """A job from a YAML or JSON file, or from such text: a `str` with a line break, or one that starts with `{`.

    The document has a list of steps, or the shape `source`, `operators`, `sink`, for which the other arguments are.

    Args:
        source: the file or the text.
        name: of the job, where the definition does not say it.
        module: where bare names of functions are looked up.
        connectors: per connector, options that the definition does not say, such as servers and urls.

    Raises:
        MillstreamError: what the API would have raised for the same step, with its place in the file; or `DECL-…` for
            what only a file can get wrong.
    """
    document, beside = read_document(source), Beside(name=name, module=module, connectors=connectors or {})
    if is_dag(document.content):
        return _job_of(normalised(document, beside))
    if not beside.is_empty:
        msg = "name=, module= and connectors= are for definitions with source, operators and sink"
        raise InvalidPlan(msg, code="DECL-004", found=", ".join(document.content), known=SHAPE, hint="leave them out")
    if "format" in document.content:
        with document.located(None, None):
            return Job.from_json(document.content)
    return _job_of(Normalised(document=document))


def _job_of(definition: Normalised) -> Job:
    document = definition.document
    with document.located(None, None):
        job, steps = _opened(document.content)
    loaded = LoadedSteps(job)
    for index, step in enumerate(steps):
        with document.located(index, _label(step)), _hinted(definition.hints.get(index)):
            _add(loaded, step)
    return job


@contextlib.contextmanager
def _hinted(hint: str | None) -> Iterator[None]:
    """An expression that cannot be read may have been meant as a function."""
    try:
        yield
    except InvalidExpression as error:
        if hint is None:
            raise
        fields: dict[str, Any] = {**error.fields(), "hint": hint}
        raise InvalidExpression(fields.pop("message"), **fields).with_traceback(error.__traceback__) from None


def _opened(content: dict[str, Any]) -> tuple[Job, list[Any]]:
    """The job without steps, and the steps as they are written."""
    refuse_flink_keys({key: value for key, value in content.items() if key not in _JOB_KEYS})
    refuse_unknown(content, _JOB_KEYS, "a job file")
    for name in ("job", "steps"):
        if name not in content:
            msg = f"a job file needs {name!r}"
            raise InvalidPlan(msg, code="DECL-003", found=", ".join(content), known=_JOB_KEYS, hint=f"add {name}:")
    if not isinstance(content["steps"], list):
        raise wrong_form(content["steps"], "steps:", "a list of steps")
    settings = {key: value for key, value in content.items() if key not in {"job", "steps"}}
    return Job(content["job"], **settings), content["steps"]


def _add(loaded: LoadedSteps, written: Any) -> None:
    """Read one step and add it to the job."""
    kind = _kind(written)
    chained = () if kind == "sink" else (_CHAIN,)
    refuse_unknown(written, (kind, *KINDS[kind].keys, *chained), f"{kind} step")
    options = {key: value for key, value in written.items() if key not in {kind, _CHAIN}}
    stream = KINDS[kind].build(loaded, WrittenStep(kind=kind, value=written[kind], options=options))
    loaded.take(stream)
    if stream is not None and flag(written, _CHAIN):
        stream.start_new_chain()


def _kind(written: Any) -> str:
    if not isinstance(written, dict):
        raise wrong_form(written, "a step", "a mapping that names its kind")
    kinds: list[str] = [key for key in written if key in KINDS]
    if len(kinds) != 1:
        msg = "a step names exactly one kind"
        named = ", ".join(kinds or written) or "nothing"
        raise InvalidStep(msg, code="DECL-005", found=named, known=KINDS, hint="write for example filter: amount > 0")
    return kinds[0]


def _label(step: Any) -> str | None:
    """How a step is called in messages: its name or id, else its kind."""
    if not isinstance(step, dict):
        return None
    name = step.get("source") or step.get("sink") or step.get("id")
    return str(name or next((key for key in step if key in KINDS), "")) or None
