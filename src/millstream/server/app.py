"""`create_app`: the REST interface over a service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from millstream import __version__
from millstream.server.access.gate import PREFIX, Gate
from millstream.server.front import Front
from millstream.server.intake import BodyIntake
from millstream.server.refusing import refuse
from millstream.server.routes import about, connectors, events, figures, nodes, settings
from millstream.server.routes.access import audits, sessions, tokens
from millstream.server.routes.jobs import backfills, config, hooks, jobs, schedules, versions
from millstream.server.routes.runs import epochs, live, operations, runs, vertices
from millstream.server.routes.stored import (
    artifacts,
    checkpoints,
    letter_acts,
    letters,
    savepoint_checks,
    savepoints,
    secrets,
    state,
)
from millstream.server.service import Service
from millstream.server.streams.hub import Hub

_TOKEN = {"type": "http", "scheme": "bearer", "description": "A token, `ms_…`."}
_COOKIE = {"type": "apiKey", "in": "cookie", "name": "__Host-millstream", "description": "A session of a browser."}
_ALWAYS: tuple[APIRouter, ...] = (
    about.router,
    sessions.router,
    jobs.router,
    versions.router,
    runs.router,
    epochs.router,
    operations.router,
    letters.router,
    nodes.router,
    connectors.router,
    schedules.router,
    backfills.router,
    tokens.router,
    audits.router,
    settings.router,
    events.router,
)


class RestApplication(FastAPI):
    """The application, whose document says how callers prove who they are."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        described = super().openapi()
        schemes = {"token": _TOKEN, "session": _COOKIE}
        described.setdefault("components", {})["securitySchemes"] = schemes
        return described


def create_app(service: Service) -> FastAPI:
    """The application; every route of it stands behind the gate."""
    hub = Hub(service)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with hub.polling():
            yield

    app = RestApplication(
        title="Millstream",
        version=__version__,
        description="Jobs, runs, schedules and what they need.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service, app.state.hub = service, hub
    for router in (*_ALWAYS, *_parts(service)):
        app.include_router(router, prefix=PREFIX)
    if service.figures is not None:
        app.include_router(figures.router)  # where every scraper looks for it
    _secure(app, service)
    return app


def _parts(service: Service) -> list[APIRouter]:
    """Routes of parts that this service has."""
    asked = [live.router, vertices.router, savepoint_checks.records_router, figures.nodes_router]
    parts = asked if service.channel is not None else []
    parts += [state.router, letters.stored_router, letter_acts.router] if service.stored is not None else []
    parts += [secrets.router, config.router, hooks.router] if service.keys is not None else []
    parts += [artifacts.router] if service.artifacts is not None else []
    parts += [checkpoints.router] if service.checkpoints is not None else []
    # Behind `/savepoints/diff`, which would be taken for the number of one.
    return [*parts, savepoint_checks.router, savepoints.router]


def _secure(app: FastAPI, service: Service) -> None:
    app.add_exception_handler(HTTPException, _framework_refusal)
    app.add_exception_handler(RequestValidationError, _does_not_fit)
    for layer in (BodyIntake, Gate, Front):  # the last stands outermost
        app.add_middleware(layer, service=service)


async def _framework_refusal(request: Request, problem: Exception) -> NoReturn:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 405:
        hint = "use one of the known methods"
        known = dict(problem.headers or {})
        refuse(
            "REST-002",
            "the path has no such method",
            found=request.method,
            known=known.get("Allow"),
            hint=hint,
            headers=known,
        )
    if problem.status_code == 404:
        refuse("REST-001", "there is no such path", found=request.url.path, hint="see /v1/openapi.json")
    refuse("REST-005", "the body cannot be read", hint="send valid JSON")


async def _does_not_fit(_request: Request, problem: Exception) -> NoReturn:
    assert isinstance(problem, RequestValidationError)
    first = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors()[:10]]
    hint = "correct what is named"
    refuse("REST-006", "the request does not fit", found="; ".join(first), hint=hint)
