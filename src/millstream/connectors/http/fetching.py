"""Fetches pages into the intake log, ahead of the epochs: one page at a time of each slice, several slices at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from millstream.connectors.http.ahead import PagesAhead
from millstream.connectors.http.asking.addresses import followed
from millstream.connectors.http.asking.client import HttpClient
from millstream.connectors.http.asking.exchange import AskedAnswer, Exchange, ExchangeClosed
from millstream.connectors.http.paging.page_request import PageRequest, full_url, shown_address, without_values
from millstream.connectors.http.paging.pages import BodyFormat, FetchedPage, kept_records, page_of
from millstream.connectors.http.paging.paths import MISSING
from millstream.connectors.http.paging.slices import PARENT, ListSlices
from millstream.connectors.http.paging.turning import (
    PageOutcome,
    PagingPlan,
    after_page,
    next_request,
    requests_ahead,
    reset,
    split,
)
from millstream.connectors.http.position import (
    ApiPosition,
    Change,
    changed,
    has_growing_key,
    known_children,
    merged,
    newest_of,
    to_json,
)
from millstream.connectors.http.schedule import FetchSchedule, PageWork, RestingSlice
from millstream.connectors.http.settings import SourceSettings
from millstream.connectors.intake.files import LoggedEntry
from millstream.connectors.intake.intake import Intake
from millstream.connectors.intake.log import ReceivedEntry
from millstream.errors import ExternalFailure

_NO_PAGE = FetchedPage({}, MISSING, (), "")


class PageFetcher:
    """Fetches from a position on; a receiver of the intake."""

    def __init__(self, settings: SourceSettings, position: ApiPosition, client: HttpClient, exchange: Exchange) -> None:
        self._settings, self._start, self._client, self._exchange = settings, position, client, exchange
        plans = [plan for plan in (settings.paging, settings.parent) if plan is not None]
        most = max(plan.paginator.ahead for plan in plans)
        self._ahead = PagesAhead(exchange.ask, threads=most * self._parallelism)
        self._schedule: FetchSchedule | None = None
        self._problems: list[Exception] = []
        self._is_stopped = False

    def run(self, intake: Intake, waiting: Sequence[LoggedEntry]) -> None:
        """Fetch until every slice has ended; behind what lies in the log already."""
        position = self._start
        for entry in waiting:
            position = changed(position, entry.note["change"], entry.place)
        schedule = self._schedule = FetchSchedule(self._settings, position)
        if self._is_stopped:
            return
        threads = [
            threading.Thread(target=self._work, args=(intake, schedule), name="millstream-http", daemon=True)
            for _ in range(self._parallelism)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._ahead.close()
        if self._problems:
            raise self._problems[0]

    @property
    def _parallelism(self) -> int:
        slices, most = self._settings.slices, self._settings.rates.concurrency
        return min(most, len(slices.values)) if isinstance(slices, ListSlices) else most

    def stop(self) -> None:
        """End what is under way."""
        self._is_stopped = True
        if self._schedule is not None:
            self._schedule.stop()
        self._ahead.close()
        self._client.cut()

    def resting(self) -> tuple[dict[str, RestingSlice], int]:
        """The slices that wait, and until when all of them do."""
        return ({}, 0) if self._schedule is None else self._schedule.resting()

    def _work(self, intake: Intake, schedule: FetchSchedule) -> None:
        try:
            while intake.wait_for_room() and (work := schedule.take()) is not None:
                try:
                    self._fetch(work, intake, schedule)
                except ExternalFailure as problem:
                    schedule.release(work)
                    intake.fail(problem)
        except ExchangeClosed:
            pass
        except Exception as problem:
            self._problems.append(problem)
            schedule.stop()

    def _fetch(self, work: PageWork, intake: Intake, schedule: FetchSchedule) -> None:
        plan, body = schedule.plan_of(work)
        request = next_request(plan, work.state)
        asked = self._ahead.answer(
            work.number, request, requests_ahead(plan, work.state), lambda until, why: schedule.rest(work, until, why)
        )
        page, outcome = self._understood(plan, body, work, request, asked)
        rows = 0 if work.number == PARENT else len(page.records) - len(outcome.skip)
        note = {"slice": work.state.name, "page": work.state.pages + 1, "origin": shown_address(request)}
        if outcome.skip:
            note["skip"] = list(outcome.skip)
        content = kept_records(asked.answer.body, body, outcome.skip) if rows else b""
        schedule.done(
            work,
            lambda position: self._change(work, position, page, outcome),
            lambda change: intake.put(ReceivedEntry(content, rows, {**note, "change": change})),
        )

    def _understood(
        self, plan: PagingPlan, body: BodyFormat, work: PageWork, request: PageRequest, asked: AskedAnswer
    ) -> tuple[FetchedPage, PageOutcome]:
        match asked.decision.action:
            case "ignore":
                return _NO_PAGE, PageOutcome(None, "ignored")
            case "reset":
                return _NO_PAGE, PageOutcome(reset(plan, work.state))
            case "split":
                return _NO_PAGE, PageOutcome(split(plan, work.state))
        page = page_of(asked.answer, body)
        return page, after_page(plan, work.state, page, lambda target: self._address(request, target))

    def _address(self, request: PageRequest, target: str) -> str:
        """The next address, whole, allowed, and without what must not be stored."""
        address = followed(full_url(request), target, self._settings.allowed, what="the next page")
        return without_values(address, self._exchange.secrets_of(request), self._exchange.secrets_of_path(request))

    def _change(self, work: PageWork, position: ApiPosition, page: FetchedPage, outcome: PageOutcome) -> Change:
        state = None if outcome.state is None else to_json(outcome.state)
        if work.number == PARENT:
            skipped = set(outcome.skip)
            parents = [record for number, record in enumerate(page.records) if number not in skipped]
            return merged(known_children(self._settings, position, parents), {"parent": state})
        return {"slices": {work.number: state}, **self._newest(position, page)}

    def _newest(self, position: ApiPosition, page: FetchedPage) -> Change:
        incremental, paginator = self._settings.incremental, self._settings.paging.paginator
        if incremental is not None:
            return {"newest": newest_of(position.newest, page.records, incremental.field)}
        if has_growing_key(self._settings) and page.records:
            assert paginator.path is not None
            return {"newest": newest_of(None, page.records[-1:], paginator.path)}
        return {}
