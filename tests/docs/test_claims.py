"""What pages say about the code is what the code says: constants, names, files, codes."""

import inspect
import re

import msgspec
import pytest
import typer
from tests.docs.pages import PAGES, ROOT, name

import millstream as ms
from millstream.api.running import job as running
from millstream.api.streams import job_steps
from millstream.api.streams.connected import ConnectedStreams
from millstream.checkpoint import failpoint
from millstream.checkpoint.lease import _is_free
from millstream.checkpoint.lease_record import LeaseRecord
from millstream.checkpoint.owner import this_process
from millstream.checkpoint.stores import local, remote
from millstream.cli.main import app
from millstream.cli.projects import nexmark
from millstream.connectors.consumer.spec import DECLARATION as CONSUMER
from millstream.connectors.files import discovery
from millstream.connectors.files.spec import DECLARATION as FILES
from millstream.connectors.jdbc import committer, database, postgres
from millstream.connectors.jdbc.reading import enumerator, opening
from millstream.connectors.jdbc.spec import DECLARATION as JDBC
from millstream.connectors.kafka import clients
from millstream.connectors.kafka.transactions import marks
from millstream.connectors.loader.spec import DECLARATION as LOADER
from millstream.connectors.print.spec import DECLARATION as PRINT
from millstream.database import sqlite
from millstream.driver import executors
from millstream.graph.model import MAX_KEY_GROUPS
from millstream.inspect import machine, mending
from millstream.jobmaster import attempts, requests
from millstream.plan.deployment import EpochPolicy, MemoryBudget
from millstream.spark.start import launcher_jvm, private

JOB = inspect.signature(ms.Job).parameters
MEBI = 1 << 20


def spaced(number):
    return f"{number:,}".replace(",", " ")


# Page, sentence with {}, what the code holds, as it is written there.
QUOTED = [
    ("docs/reference/checkpoint-layout.md", "one per durable epoch; the last {} are kept", EpochPolicy().retained),
    ("docs/reference/checkpoint-layout.md", "is asked again for\n{:.0f} seconds", remote.PATIENCE_SECONDS),
    ("docs/reference/checkpoint-layout.md", "The run looks {} a second", {0.5: "twice"}[requests._POLL_SECONDS]),
    ("docs/reference/configuration.md", '| `epoch_interval` | `"{}"` |', JOB["epoch_interval"].default),
    ("docs/reference/configuration.md", "| `rows_per_epoch` | {} |", spaced(JOB["rows_per_epoch"].default)),
    ("docs/reference/configuration.md", "| `parallelism` | {} |", JOB["parallelism"].default),
    ("docs/reference/configuration.md", "| `max_parallelism` | {} | key groups", JOB["max_parallelism"].default),
    ("docs/reference/configuration.md", "key groups, at most {}", spaced(MAX_KEY_GROUPS)),
    ("docs/reference/configuration.md", "`--min-pause` | {} |", EpochPolicy().min_pause),
    ("docs/reference/configuration.md", "`--epoch-timeout` | {} |", spaced(EpochPolicy().timeout)),
    ("docs/reference/configuration.md", "`--retain` | {} |", EpochPolicy().retained),
    ("docs/reference/configuration.md", "`--tolerate-failures` | {} |", EpochPolicy().tolerated_failures),
    ("docs/reference/configuration.md", "`--lease-term` | {} |", spaced(EpochPolicy().lease_term)),
    ("docs/reference/configuration.md", "| `payload_bytes` | {:.0f} MiB |", MemoryBudget().payload_bytes / MEBI),
    ("docs/reference/configuration.md", "| `page_bytes` | {:.0f} KiB |", MemoryBudget().page_bytes / 1024),
    ("docs/reference/configuration.md", "| `state_bytes` | {:.0f} MiB |", MemoryBudget().state_bytes / MEBI),
    ("docs/reference/configuration.md", "| `cache_bytes` | {:.0f} MiB |", MemoryBudget().cache_bytes / MEBI),
    ("docs/reference/configuration.md", "| `driver_mb` | {} |", MemoryBudget().driver_mb),
    ("docs/reference/configuration.md", "the Java that Spark uses, {} or newer", machine.JAVA),
    ("README.md", "Java {} or newer for Spark", machine.JAVA),
    ("docs/concepts/epochs.md", "`sleep` ({} seconds)", {5.0: "five"}[failpoint._SLEEP_SECONDS]),
    ("docs/concepts/epochs.md", "| `timeout` | {:.0f} min |", EpochPolicy().timeout / 60_000),
    ("docs/concepts/epochs.md", "| `retained` | {} |", EpochPolicy().retained),
    ("docs/concepts/epochs.md", "| `lease_term` | {:.0f} s |", EpochPolicy().lease_term / 1000),
    ("docs/concepts/state-and-timers.md", "about {:.0f} KiB, which divide", MemoryBudget().page_bytes / 1024),
    ("docs/concepts/state-and-timers.md", "`MemoryBudget.state_bytes` ({:.0f} MiB)", MemoryBudget().state_bytes / MEBI),
    ("docs/concepts/state-and-timers.md", "`MemoryBudget.cache_bytes` ({:.0f} MiB)", MemoryBudget().cache_bytes / MEBI),
    ("docs/reference/connectors.md", "in pieces of at least {} rows", spaced(discovery._ROWS_PER_UNIT)),
    ("docs/reference/connectors.md", "json files above {:.0f} MiB", 2 * discovery._BYTES_PER_UNIT / MEBI),
    ("docs/reference/connectors.md", "in pieces of {:.0f} MiB", discovery._BYTES_PER_UNIT / MEBI),
    (
        "docs/reference/connectors.md",
        "| `max_bytes_per_file` | {:.0f} MiB |",
        FILES.sink.options["max_bytes_per_file"].default / MEBI,
    ),
    ("docs/reference/jdbc.md", "is asked again for {:.0f} seconds", database.PATIENCE),
    ("docs/reference/jdbc.md", "wait at most {} seconds for a lock", postgres.LOCK_TIMEOUT.removesuffix("s")),
    ("docs/reference/jdbc.md", "inside a transaction for {} seconds", postgres.IDLE_TIMEOUT.removesuffix("s")),
    ("docs/reference/jdbc.md", "Of the markers the newest {} of a", committer.KEPT_MARKERS),
    ("docs/reference/jdbc.md", "it is asked again for {:.0f} seconds; then `JDBC-002`", opening.PATIENCE),
    ("docs/reference/jdbc.md", "| `chunk_rows` | {} |", spaced(JDBC.source.options["chunk_rows"].default)),
    ("docs/reference/jdbc.md", "at about {:.0f} MiB |", enumerator.CHUNK_BYTES / MEBI),
    (
        "docs/reference/functions.md",
        "| `ahead_bytes` | {:.0f} MiB |",
        LOADER.source.options["ahead_bytes"].default / MEBI,
    ),
    ("docs/reference/functions.md", "| `batch_rows` | {} |", spaced(CONSUMER.sink.options["batch_rows"].default)),
    ("docs/reference/kafka.md", "the digests of the newest {} epochs", marks.KEPT_EPOCHS),
    ("docs/reference/kafka.md", "it is sent again for {:.0f} seconds", clients.PATIENCE),
    ("docs/reference/kafka.md", "the epoch is tried again for {:.0f} seconds", clients.PATIENCE),
    ("docs/reference/connectors.md", 'ms.print(format="table", limit={})', PRINT.sink.options["limit"].default),
    ("docs/reliability.md", "that one gives up after {:.0f} s", sqlite.BUSY_SECONDS),
    ("docs/reliability.md", "that one gives up after {:.0f} s", local.LOCK_SECONDS),
    ("docs/reliability.md", "PostgreSQL cuts such\n  an owner after {} s", postgres.IDLE_TIMEOUT.removesuffix("s")),
    ("docs/reference/configuration.md", "A run that gets no executor within `{}` ends", executors.DEFAULT_WAIT),
    (
        "docs/decisions/0010-jvm-output-to-a-log-file.md",
        "the {} newest are kept",
        {20: "twenty"}[private._KEPT_LOGS],
    ),
    ("docs/reference/cli.md", "a side that takes longer is given up; {} |", 900),
    ("docs/differences-from-flink.md", "doubles by itself, up to {} seconds", {10.0: "ten"}[attempts._LONGEST_PAUSE]),
    (
        "docs/decisions/0018-a-jvm-that-only-conducts.md",
        "waits {} seconds for the JVM",
        {10.0: "ten"}[launcher_jvm._END_SECONDS],
    ),
]


@pytest.mark.parametrize(("page", "sentence", "value"), QUOTED, ids=lambda part: str(part)[:40])
def test_a_constant_in_prose_is_that_of_the_code(page, sentence, value):
    assert sentence.format(value) in (ROOT / page).read_text()


def failpoints_in(folder):
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    return set(re.findall(r'\bfailpoint\("(\w+)"\)', text))


@pytest.mark.parametrize("page", ["docs/reference/configuration.md", "docs/concepts/epochs.md"])
def test_every_failpoint_and_action_is_named(page):
    text = (ROOT / page).read_text()
    wanted = failpoints_in(ROOT / "src") | set(failpoint._ACTIONS)
    assert len(wanted) > 20
    assert {each for each in wanted if f"`{each}`" not in text} == set()


_PATH = re.compile(r"`((?:tests|examples|scripts|benchmarks|docs)/[\w./-]+|[a-z_]+/[\w/]+\.py)[`:]")
_INSIDE = (ROOT, ROOT / "src/millstream", ROOT / "tests", ROOT / "tests/unit/connectors/sinks")
_PLACEHOLDERS = {"path/job.py"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_file_that_is_named_exists(page):
    named = set(_PATH.findall(page.read_text())) - _PLACEHOLDERS
    assert [path for path in sorted(named) if not any((root / path).exists() for root in _INSIDE)] == []


_CODE = re.compile(r"`([A-Z]{2,9}-\d{3})`")
KNOWN = set(re.findall(r"^\| ([A-Z]+-\d{3}) \|", (ROOT / "docs/reference/errors.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_an_error_code_that_is_named_exists(page):
    assert set(_CODE.findall(page.read_text())) - KNOWN == set()


def commands(group, words=()):
    """Every command with its words."""
    for word, found in group.commands.items():
        yield from commands(found, (*words, word)) if hasattr(found, "commands") else [((*words, word), found)]


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_every_option_of_a_command_is_named(words, command):
    text = (ROOT / "docs/reference/cli.md").read_text()
    assert words[-1] in text
    options = [each.opts for each in command.params if each.opts[0].startswith("-")]
    assert [opts for opts in options if not any(re.search(rf"(?<![\w-]){one}(?![\w-])", text) for one in opts)] == []


def test_a_step_that_takes_on_error_is_named():
    text = (ROOT / "docs/concepts/bad-records.md").read_text()
    (claim,) = re.findall(r"`on_error` exists on [^\n]*", text)
    kinds = [ms.Job, ms.DataStream, ms.KeyedStream, ms.WindowedStream, ConnectedStreams]
    takers = {each for kind in kinds for each, found in vars(kind).items() if is_taker(found)}
    assert takers == set(re.findall(r"`(\w+)`", claim)) - {"on_error"}


def is_taker(member):
    return (
        inspect.isfunction(member) and "on_error" in inspect.signature(member).parameters and member.__name__[0] != "_"
    )


def test_words_of_the_glossary_are_those_of_the_code():
    text = (ROOT / "docs/glossary.md").read_text()
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    classes = re.findall(r"`([A-Z][a-z]\w+)`", text)
    assert len(classes) > 5
    assert [each for each in classes if f"class {each}" not in source] == []
    aggregates = re.search(r"^\| aggregate \|.*$", text, re.MULTILINE)[0]
    kinds = {each for each in ms.__all__ if inspect.isfunction(getattr(ms, each)) and "of" in parameters(each)}
    assert {each for each in kinds if f"`{each}`" not in aggregates} == set()


def parameters(function):
    return inspect.signature(getattr(ms, function)).parameters


def test_the_lease_ends_as_the_page_says():
    """No clock is compared: a lease that was renewed long ago is not free for that."""
    old = LeaseRecord(token=1, owner="me", process=this_process(), term=1, renewed_at=0.0)
    assert not _is_free(old)
    assert _is_free(msgspec.structs.replace(old, is_released=True))
    text = " ".join((ROOT / "docs/reference/checkpoint-layout.md").read_text().split())
    assert "not at all for one that gave it back or whose process is known to be gone" in text
    assert "four terms" not in text


def test_engines_are_named_in_the_runtime_only_where_the_page_says():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    named = sorted(
        str(path.relative_to(ROOT / "src/millstream"))
        for room in ("inspect", "jobmaster", "runtime", "state")
        for path in (ROOT / "src/millstream" / room).rglob("*.py")
        if re.search(r'"(spark|local)"', path.read_text())
    )
    (claim,) = re.findall(r"Engines are named below them and in `inspect/` only where their files are:[^-]*", page)
    assert named == sorted(re.findall(r"`([\w/]+\.py)`", claim))


def test_what_a_running_job_keeps_is_said_where_it_is_asked():
    assert f"at most the last {running._KEPT_EPOCHS:,}" in ms.RunningJob.epochs.fget.__doc__
    assert job_steps._MAX_ID == 100
    assert EpochPolicy().lease_term == mending._TERM
    assert "900" in inspect.getsource(nexmark)
