"""From the name of a job to a `Job`: a Python file or module, or a declarative file."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from millstream.api.job import Job
from millstream.api.jobfile.load import load_job
from millstream.errors import Domain, InvalidPlan, MillstreamError
from millstream.graph.model import StreamModel
from millstream.registry import load_module

DECLARATIVE = (".yaml", ".yml", ".json")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FORMS = "path.py, path.py:variable, module:variable, path.yaml, path.yml, path.json"


class BadTarget(MillstreamError, ValueError):
    """A JOB argument that does not lead to a job."""

    code = "CLI-001"
    domain: Domain = "user"


def model_of(job: Job, parallelism: int | None) -> StreamModel:
    """The job, with another parallelism when one is given."""
    model = job.model
    if parallelism is None:
        return model
    return dataclasses.replace(model, requirements=dataclasses.replace(model.requirements, parallelism=parallelism))


def load(target: str) -> Job:
    """The job that a JOB argument names; its folder is put on `sys.path`, as when the file is run by Python."""
    path, _, variable = target.partition(":") if ".py:" in target or not Path(target).exists() else (target, "", "")
    if Path(path).suffix in DECLARATIVE and not variable:
        _on_path(_existing(path).parent)
        return load_job(Path(path))
    if path.endswith(".py"):
        return _job_in(_module_at(_existing(path)), variable, path)
    if variable and _MODULE.fullmatch(path):
        _on_path(Path.cwd())
        return _job_in(_imported(path), variable, path)
    msg = "JOB does not say where the job is"
    raise BadTarget(msg, code="CLI-001", found=repr(target), known=_FORMS, hint="name a file or module:variable")


def _existing(path: str) -> Path:
    file = Path(path)
    if not file.is_file():
        msg = "there is no such job file"
        raise BadTarget(msg, code="CLI-002", found=repr(path), known=_FORMS, hint="check the path")
    return file.resolve()


def _on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module_at(path: Path) -> ModuleType:
    """Import a file under the name of its stem, so that its functions can be found by that name later."""
    name = path.stem
    taken = sys.modules.get(name)
    if taken is not None and Path(getattr(taken, "__file__", None) or "?").resolve() != path:
        msg = f"module name {name!r} is already taken"
        raise BadTarget(msg, code="CLI-003", found=repr(taken), hint="rename the job file")
    _on_path(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = "the job file cannot be imported"
        raise BadTarget(msg, code="CLI-002", found=repr(str(path)), known=_FORMS, hint="name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MillstreamError:
        del sys.modules[name]
        raise
    except Exception as problem:
        del sys.modules[name]
        raise _failed(path.name, problem) from problem
    return module


def _imported(name: str) -> ModuleType:
    try:
        return load_module(name)
    except MillstreamError:
        raise
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            msg = f"there is no module {name!r}"
            raise BadTarget(msg, code="CLI-002", found=str(problem), hint="check the name and PYTHONPATH") from problem
        raise _failed(name, problem) from problem
    except Exception as problem:
        raise _failed(name, problem) from problem


def _failed(name: str, problem: Exception) -> InvalidPlan:
    msg = f"{name} cannot be imported"
    reason = f"{type(problem).__name__}: {problem}"
    error = InvalidPlan(msg, code="CLI-006", found=reason, hint="correct the file; --debug shows the traceback")
    return error.with_traceback(problem.__traceback__)


def _job_in(module: ModuleType, variable: str, where: str) -> Job:
    jobs = _jobs(module)
    if variable:
        named: Any = getattr(module, variable, None)
        if isinstance(named, Job):
            return named
        msg = f"{variable!r} in {where} is not a job"
        raise BadTarget(
            msg, code="CLI-004", found=type(named).__name__, known=jobs, hint="name a variable that holds a Job"
        )
    if not jobs:
        msg = f"{where} holds no job"
        raise BadTarget(
            msg, code="CLI-004", known="a variable of type Job at the top level", hint="job = ms.Job('name')"
        )
    if len({id(job) for job in jobs.values()}) > 1:
        msg = f"{where} holds several jobs"
        raise BadTarget(msg, code="CLI-005", found=", ".join(jobs), hint=f"name one: {where}:{next(iter(jobs))}")
    return next(iter(jobs.values()))


def _jobs(module: ModuleType) -> dict[str, Job]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Job)}
