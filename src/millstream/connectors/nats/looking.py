"""What `millstream connectors test` says about a stream: nothing is changed."""

from __future__ import annotations

from millstream.connectors.nats.library import StreamInfo
from millstream.connectors.nats.links import link_to
from millstream.connectors.nats.streams import StreamQuestions
from millstream.connectors.nats.target import refuse_unfit, subject_of
from millstream.errors import InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema


def probe_source(options: Options, _: Schema, step: str) -> list[str]:
    """Where the stream begins and ends."""
    questions = StreamQuestions(link_to(options, step=step), options["stream"], (), step=step)
    facts = questions.facts()
    return [
        f"stream {options['stream']!r} holds sequences {facts.first} to {facts.end - 1}, about {facts.row_bytes} bytes each"
    ]


def probe_sink(options: Options, _: Schema, step: str) -> list[str]:
    """Whether the stream is there and takes what would come, and for how long it knows repeated messages."""
    try:
        found = StreamQuestions(link_to(options, step=step), options["stream"], (), step=step).described()
    except InvalidStep as problem:
        if problem.code != "NATS-004" or not options["create"]:
            raise
        return [f"stream {options['stream']!r} is missing and would be created"]
    refuse_unfit(found, options, step=step)
    return [
        f"stream {options['stream']!r} takes subjects {', '.join(found.config.subjects or ())}",
        _window(found, options),
    ]


def _window(found: StreamInfo, options: Options) -> str:
    if options["atomic"]:
        return "an epoch appears at once, with its mark"
    return f"messages to {subject_of(options)!r} that come again within {found.config.duplicate_window:.0f} s are taken once"
