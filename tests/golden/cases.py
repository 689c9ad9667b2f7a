"""Golden cases: a folder with `job.py` and its input and expected rows, as JSON lines or as functions of `job.py`."""

import dataclasses
import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import millstream as ms
from millstream.connectors.memory.spec import MARK, to_json
from millstream.plan.deployment import MemoryBudget
from millstream.testing import ADVANCE_CLOCK

Row = dict[str, Any]
HERE = Path(__file__).parent


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """What `job.py` and the files beside it say.

    `job.py` defines `job()`, and where needed: `ORDER_KEY`, the columns within whose values rows keep their order;
    `LAST_BY`, columns by which only the last row counts; `IGNORED`, columns that are not compared (each a mapping by
    sink); `PARTITION_BY` by source; `MEMORY`; `EXPECT_ERROR`, the code the job ends with.
    """

    name: str
    job: Callable[[], ms.Job]
    inputs: Mapping[str, list[Row]]
    expected: Mapping[str, list[Row]]
    order_key: Mapping[str, Sequence[str]]
    last_by: Mapping[str, Sequence[str]]
    ignored: Mapping[str, Sequence[str]]
    partition_by: Mapping[str, str]
    memory: MemoryBudget
    error: str | None

    @property
    def has_clock(self) -> bool:
        """Whether the script moves the clock, which all steps of a job share."""
        return any(row.get(MARK) == "clock" for script in self.inputs.values() for row in script)

    def scripts(self, change: Callable[[list[Row]], list[Row]] = list) -> dict[str, Any]:
        """The input as `run_job` takes it, with every script changed."""
        return {
            name: ms.memory(change(script), partition_by=self.partition_by.get(name))
            for name, script in self.inputs.items()
        }


def load_cases() -> list[Case]:
    """Every folder with a `job.py`."""
    return [_load(path.parent) for path in sorted(HERE.glob("*/job.py"))]


def _load(folder: Path) -> Case:
    module = _module(folder)
    settings = {name: getattr(module, name.upper(), {}) for name in ("order_key", "last_by", "ignored", "partition_by")}
    return Case(
        name=folder.name,
        job=module.job,
        inputs=module.inputs() if hasattr(module, "inputs") else _files(folder, "input", "in"),
        expected=module.expected() if hasattr(module, "expected") else _files(folder, "expected", "out"),
        memory=getattr(module, "MEMORY", MemoryBudget()),
        error=getattr(module, "EXPECT_ERROR", None),
        **settings,
    )


def _module(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{folder.name}", folder / "job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _files(folder: Path, kind: str, default: str) -> dict[str, list[Row]]:
    """`input.jsonl` is source `in`, `input.orders.jsonl` is source `orders`; the same for sinks and `expected`."""
    found = {}
    for path in sorted(folder.glob(f"{kind}*.jsonl")):
        name = path.name.removeprefix(kind).removesuffix("jsonl").strip(".") or default
        found[name] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def check(case: Case, output: Mapping[str, list[Row]]) -> None:
    """Rows are equal as multisets, and in order where the case asks for it."""
    assert set(output) == set(case.expected), f"{case.name}: sinks {sorted(output)}, expected {sorted(case.expected)}"
    for sink, wanted in case.expected.items():
        found = [_plain(row, case.ignored.get(sink, ())) for row in output[sink]]
        wanted = [_plain(row, case.ignored.get(sink, ())) for row in wanted]
        if sink in case.last_by:
            assert _last(found, case.last_by[sink]) == _last(wanted, case.last_by[sink]), f"{case.name}/{sink}"
            continue
        assert _counted(found) == _counted(wanted), f"{case.name}/{sink}"
        if sink in case.order_key:
            keys = case.order_key[sink]
            assert _grouped(found, keys) == _grouped(wanted, keys), f"{case.name}/{sink}: other order"


def _plain(row: Mapping[str, Any], ignored: Sequence[str]) -> Row:
    return {name: to_json(value) for name, value in row.items() if name not in ignored}


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)


def _counted(rows: list[Row]) -> dict[str, int]:
    return dict(sorted(Counter(map(_text, rows)).items()))


def _grouped(rows: list[Row], keys: Sequence[str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_text({key: row[key] for key in keys}), []).append(row)
    return groups


def _last(rows: list[Row], keys: Sequence[str]) -> dict[str, Row]:
    return {key: group[-1] for key, group in _grouped(rows, keys).items()}


def cut(script: list[Row], pieces: int = 3) -> list[Row]:
    """Marks that change nothing but end an epoch, between about equal shares of the rows."""
    rows = sum(MARK not in row for row in script)
    ends = {rows * piece // pieces for piece in range(1, pieces)} - {0, rows}
    made, seen = [], 0
    for row in script:
        made.append(row)
        seen += MARK not in row
        if MARK not in row and seen in ends:
            made.append(dict(ADVANCE_CLOCK(0)))
    return made
