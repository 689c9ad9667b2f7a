"""The stream that a sink writes to: there, or made; and able to hold what will come."""

from __future__ import annotations

from millstream.connectors.messaging.outgoing import readable_name
from millstream.connectors.nats.library import Client, JetStreamContext, StreamConfig, StreamInfo
from millstream.connectors.nats.links import NatsLink
from millstream.connectors.nats.streams import StreamQuestions
from millstream.errors import InvalidStep
from millstream.model.connector import Options


def mark_subject(options: Options, job: str, step: str) -> str:
    """Where the marks of one sink stand, in the stream that its rows go to: only so they come in one batch."""
    return f"{options['stream']}.marks.{readable_name(job, step)}"


def marks_of(options: Options) -> str:
    """Where the marks of all sinks stand."""
    return f"{options['stream']}.marks.>"


def subject_of(options: Options) -> str:
    """Where rows go that name no subject themselves."""
    return str(options["publish_to"] or options["stream"])


def prepared_stream(link: NatsLink, options: Options, *, step: str) -> StreamInfo:
    """The stream; it is created where that is wanted.

    Raises:
        InvalidStep: it is not there (NATS-004), or cannot take batches (NATS-023).
    """
    questions = StreamQuestions(link, options["stream"], (), step=step)
    try:
        found = questions.described()
    except InvalidStep as problem:
        if problem.code != "NATS-004" or not options["create"]:
            raise
        found = _created(link, options, step)
    refuse_unfit(found, options, step=step)
    return found


def refuse_unfit(found: StreamInfo, options: Options, *, step: str) -> None:
    """Refuse a stream in which an epoch cannot appear at once, where that is wanted."""
    if not options["atomic"]:
        return
    marks = marks_of(options)
    if not found.config.allow_atomic:
        msg = f"the stream {options['stream']!r} takes no atomic batches"
        hint = "set allow_atomic of the stream, on a server from 2.12 on, or leave atomic=True out"
        raise InvalidStep(msg, code="NATS-023", step=step, hint=hint)
    if not any(covers(subject, marks) for subject in found.config.subjects or ()):
        msg = f"the stream {options['stream']!r} has no room for the marks of epochs"
        hint = f"add {marks!r} to the subjects of the stream"
        raise InvalidStep(msg, code="NATS-023", step=step, found=found.config.subjects, known=marks, hint=hint)


def covers(pattern: str, wanted: str) -> bool:
    """Whether every subject of one pattern is one of another."""
    have, want = pattern.split("."), wanted.split(".")
    for place, part in enumerate(have):
        if part == ">":
            return place < len(want)
        if place >= len(want) or want[place] == ">" or (part not in ("*", want[place])):
            return False
    return len(have) == len(want)


def _created(link: NatsLink, options: Options, step: str) -> StreamInfo:
    subject = subject_of(options)
    subjects = [subject] if options["subject_field"] is None else [subject, f"{subject}.>"]
    if options["atomic"]:
        marks = marks_of(options)
        subjects += [marks] if not any(covers(each, marks) for each in subjects) else []
    config = StreamConfig(name=options["stream"], subjects=subjects, allow_atomic=options["atomic"] or None)

    async def create(_: Client, stream: JetStreamContext) -> StreamInfo:
        return await stream.add_stream(config)

    made = link.ask(create, f"the stream {options['stream']!r} cannot be created", step=step)
    return made if made.config.subjects else StreamQuestions(link, options["stream"], (), step=step).described()
