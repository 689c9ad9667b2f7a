"""Calls about jobs and their versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import httpx2
import msgspec

from millstream.client.pages import paged, plain
from millstream.client.transport import Transport, decoded, escaped
from millstream.client.values import DiffInfo, JobInfo, PlanInfo, PlannedInfo, RunInfo, VersionInfo

Definition = Mapping[str, Any]
PlanLayer = Literal["stream", "job", "partitioned", "deployment"]


class JobCalls:
    """`client.jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, state: str | None = None, type: str | None = None, q: str | None = None) -> Iterator[JobInfo]:
        """Jobs by name: `state` of the newest run, `type` of the job, `q` a part of the name."""
        return paged(self._transport, "/jobs", JobInfo, {"state": state, "type": type, "q": q})

    def get(self, name: str) -> JobInfo:
        """One job, with its `etag`."""
        return _tagged(self._transport.send("GET", f"/jobs/{escaped(name)}"))

    def submit(
        self,
        definition: Definition,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        settings: Mapping[str, Any] | None = None,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        artifact: str | None = None,
        description: str | None = None,
        max_retry_times: int | None = None,
        key: str | None = None,
    ) -> JobInfo:
        """Submit a new job: a job file as a mapping, or `{"kind": "code", "entry": …}` with an artifact."""
        said = plain(
            dag_definition=definition,
            name=name,
            parallelism=parallelism,
            settings=settings,
            config=config,
            artifact=artifact,
            description=description,
            max_retry_times=max_retry_times,
        )
        return self._transport.post("/jobs", said, JobInfo, key=key)

    def change(self, seen: JobInfo, definition: Definition, **more: Any) -> JobInfo:
        """Submit a new version of a job as it was seen; `more` as for `submit`.

        Raises:
            StaleVersion: it was changed in the meantime.
        """
        body = plain(dag_definition=definition, **more)
        headers = {"If-Match": seen.etag}
        return _tagged(self._transport.send("PUT", f"/jobs/{escaped(seen.name)}", body=body, headers=headers))

    def set(self, name: str, *, enabled: bool | None = None, max_retry_times: int | None = None) -> JobInfo:
        """Change what needs no new version."""
        body = plain(enabled=enabled, max_retry_times=max_retry_times)
        return _tagged(self._transport.send("PATCH", f"/jobs/{escaped(name)}", body=body))

    def delete(self, name: str) -> None:
        """Take a job out."""
        self._transport.send("DELETE", f"/jobs/{escaped(name)}")

    def validate(self, definition: Definition, **more: Any) -> PlannedInfo:
        """What the job would be; what is wrong with it is raised. `more` as for `submit`."""
        body = plain(dag_definition=definition, **more)
        return self._transport.post("/jobs/validate", body, PlannedInfo)

    def versions(self, name: str) -> Iterator[VersionInfo]:
        """Versions, newest first."""
        return paged(self._transport, f"/jobs/{escaped(name)}/versions", VersionInfo, {})

    def version(self, name: str, number: int) -> VersionInfo:
        """One version."""
        return self._transport.get(f"/jobs/{escaped(name)}/versions/{number}", VersionInfo)

    def diff(self, name: str, number: int, *, against: int | None = None) -> DiffInfo:
        """What changed to a version: from the one before, or another."""
        return self._transport.get(f"/jobs/{escaped(name)}/versions/{number}/diff", DiffInfo, {"against": against})

    def plan(self, name: str, *, layer: PlanLayer = "partitioned", version: int | None = None) -> PlanInfo:
        """A layer of a plan."""
        place = "" if version is None else f"/versions/{version}"
        return self._transport.get(f"/jobs/{escaped(name)}{place}/plan", PlanInfo, {"layer": layer})

    def start(self, name: str, *, trigger_id: str | None = None, **options: Any) -> RunInfo:
        """Start a run; the same `trigger_id` again gives the same run. `options` as of `POST /jobs/{name}/runs`."""
        body = plain(trigger_id=trigger_id, **options)
        return self._transport.post(f"/jobs/{escaped(name)}/runs", body, RunInfo)

    def runs(self, name: str, *, status: str | None = None) -> Iterator[RunInfo]:
        """Runs of a job, newest first."""
        return paged(self._transport, f"/jobs/{escaped(name)}/runs", RunInfo, {"status": status})


def _tagged(answer: httpx2.Response) -> JobInfo:
    return msgspec.structs.replace(decoded(answer, JobInfo), etag=answer.headers.get("etag", ""))
