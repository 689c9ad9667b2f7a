"""Rescaling a run: suspended, and started again at another parallelism, as one operation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field

from millstream.control.act import Act
from millstream.control.dispatcher.rescaling import rescale
from millstream.control.dispatcher.stopping import run_of
from millstream.server.asking import Asks, guarded
from millstream.server.idempotency import ActAnswer, once
from millstream.server.routes.shapes import Body, OperationOpened, RunId

router = APIRouter(tags=["runs"])


class RescaleBody(Body):
    """At how many subtasks keyed steps go on."""

    parallelism: Annotated[int, Field(ge=1, le=32768)]
    model_config = ConfigDict(json_schema_extra={"example": {"parallelism": 4}})


@router.post(
    "/runs/{run}/rescale",
    status_code=202,
    response_model=OperationOpened,
    **guarded("operator"),
    summary="Let a run go on at another parallelism",
)
def rescale_run(run: RunId, body: RescaleBody, asking: Asks) -> Response:
    """It takes a savepoint and ends; the operation names the run that goes on from it."""

    def effect(act: Act) -> ActAnswer:
        row = run_of(act, run)
        identifier = rescale(act, row, body.parallelism, asking.asked)
        asking.audit(act, "run.rescale", row.execution_id, after={"parallelism": body.parallelism})
        place = f"/v1/operations/{identifier}"
        return ActAnswer(202, OperationOpened(operation=identifier), place, is_operation=True)

    return once(asking, effect)
