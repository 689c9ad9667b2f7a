"""Writes docs/reference/rest.md from the OpenAPI document: `python scripts/rest_reference.py`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.metadata.database import Metadata
from millstream.control.metrics.exposition import Exposition
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.stored.calling import StoredCalls
from millstream.server.app import create_app
from millstream.server.service import Service

PAGE = Path(__file__).parents[1] / "docs/reference/rest.md"
_METHODS = ("get", "post", "put", "patch", "delete")
_INTRODUCTION = """# REST interface

Every call of the service, made from its OpenAPI document (`GET /v1/openapi.json`) by `scripts/rest_reference.py`.

**Callers** send `Authorization: Bearer ms_…`, or a session's cookie; changes with a cookie need `X-CSRF-Token` of
`GET /v1/session` and come from a page of the service. Roles, each with the rights of those before it: viewer, operator, editor,
author, admin. Jobs that are data need an editor, jobs with code an author.

**Bodies** are JSON of at most 1 MiB and 32 levels; unknown fields are refused. Times are RFC 3339 in UTC.

**Lists** come in pages: `?limit=` up to 1000 and `?cursor=` give `{items, next}`; `next` is the cursor of the next page.

**Asking once**: a POST with `Idempotency-Key` takes effect once, however often it is sent; the answer is the first one for seven
days. The same key with another body is refused with 409. Keys are the caller's own: another caller may use the same.

**Long work** answers 202 with an operation; `GET /v1/operations/{operation}` says `pending`, `running`, `done` or `failed`.

**Changes of jobs** say what was seen: `If-Match` with the job's `ETag`. A new version needs it (428), and is refused when another
was faster (412).

**Errors** are one object, `{code, message, details, how_to_fix, request_id}`, with the [codes](errors.md) of the rest of the
system; 4xx is the caller's to mend, 502 and 503 another system's, 500 ours. 429 and 503 come with `Retry-After`.

**Limits** of one token: 20 requests per second with a burst of 60, ten streams, five logins per minute and address.

**Events**: `GET /v1/events?topics=jobs,run:ID,nodes` is a stream of server-sent events: `snapshot` first, then `run_state` and
other events of runs with their number as `id`. `Last-Event-ID` gives those that were missed. Events without a number say how
things are now, and come no second time: `progress` (once a second at most) and `epoch` for `run:ID`, `operation` for `jobs` and
the run it is about, `job` for `jobs` (a new version, enabled, deleted, wanted), `node` for `nodes`, and `alert` for both when a
node falls silent and when it is heard of again. A reader that is too slow loses `progress` first, then gets `reset`. A stream
ends after 15 minutes; open it again.

**States**: a run is `CHECKPOINTING` while the publication of an epoch, or a savepoint, takes longer than a second; it runs on.

**Shares** of vertices are those of the last ten seconds: `busy`, `blocked` and `idle` of the worst subtask, whose sum is 1, and
`mean_busy` of all subtasks. `level` is `ok` up to 10 % blocked, `low` up to 50 %, `high` above.

From Python the same calls are methods of `millstream.client.Client`.
"""


def document() -> dict[str, Any]:
    """The OpenAPI document of a service with all of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        metadata = Metadata(f"sqlite:///{place / 'metadata.db'}")
        service = Service(
            metadata=metadata,
            planner=planned_apart,
            signing_key=b"",
            channel=ChannelCalls(metadata),
            stored=StoredCalls(metadata),
            keys=KeyRing(place / "keys.json"),
            artifacts=ArtifactStore(place / "artifacts"),
            checkpoints=place / "checkpoints",
            figures=Exposition(metadata, tuple),
        )
        described: dict[str, Any] = create_app(service).openapi()
        metadata.close()
    return described


def page(described: dict[str, Any]) -> str:
    """The page, a section for each kind of thing."""
    sections: dict[str, list[str]] = {}
    for path, calls in described["paths"].items():
        for method in _METHODS:
            if method in calls:
                call = calls[method]
                sections.setdefault(call["tags"][0], []).append(_call(described, method, path, call))
    parts = [_INTRODUCTION]
    for title in sorted(sections):
        parts.append(f"## {title.capitalize()}\n")
        parts += sections[title]
    return "\n".join(parts)


def _call(described: dict[str, Any], method: str, path: str, call: dict[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}\n", f"{call['summary']}. {call.get('description', '').strip()}\n"]
    answers = ", ".join(sorted(code for code in call["responses"] if code.isdigit() and code != "422"))
    role = "open" if call["x-role"] == "open" else f"role {call['x-role']}"
    lines.append(f"{role} · answers {answers}{_shape(described, call)}\n")
    rows = [_parameter(each) for each in call.get("parameters", [])]
    if rows:
        lines += ["| parameter | in | type | meaning |", "|---|---|---|---|", *rows, ""]
    lines += _body(described, call)
    return "\n".join(lines)


def _parameter(each: dict[str, Any]) -> str:
    meaning = each.get("description", "").replace("|", "\\|")
    needed = " (required)" if each.get("required") and each["in"] != "path" else ""
    return f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {meaning}{needed} |"


def _shape(described: dict[str, Any], call: dict[str, Any]) -> str:
    for code, answer in sorted(call["responses"].items()):
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if code.isdigit() and code < "300" and "$ref" in schema:
            fields = ", ".join(f"`{name}`" for name in _resolved(described, schema).get("properties", {}))
            return f" · fields {fields}"
    return ""


def _body(described: dict[str, Any], call: dict[str, Any]) -> list[str]:
    content = call.get("requestBody", {}).get("content", {})
    schema = _resolved(described, content.get("application/json", {}).get("schema", {}))
    if "properties" not in schema:
        return ["The body is the archive itself.\n"] if "application/octet-stream" in content else []
    needed = schema.get("required", [])
    rows = [
        f"| `{name}` | {_type(field)} | {'yes' if name in needed else ''} |"
        for name, field in schema["properties"].items()
    ]
    lines = ["| field | type | required |", "|---|---|---|", *rows, ""]
    if "example" in schema:
        lines += ["```json", json.dumps(schema["example"], indent=2, ensure_ascii=False), "```", ""]
    return lines


def _resolved(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = described["components"]["schemas"][name] if name else schema
    return found


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    return str(schema.get("type", "any"))


if __name__ == "__main__":
    PAGE.write_text(page(document()), encoding="utf-8")
