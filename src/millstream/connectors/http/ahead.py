"""Pages that are asked for before the page in front of them has come: where pages are numbered, their names are known.

Whether such a page is there is not. An answer is used when its turn comes and its request is the one that is wanted then; what
was asked in vain, errors too, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from millstream.connectors.http.asking.exchange import AskedAnswer, ExchangeClosed, Resting
from millstream.connectors.http.paging.page_request import PageRequest

Ask = Callable[[PageRequest, Resting], AskedAnswer]


class _EarlyQuestion:
    """A question whose answer may be wanted soon."""

    def __init__(self, request: PageRequest, ask: Ask, threads: ThreadPoolExecutor) -> None:
        self.request = request
        self._waits: tuple[int, str] = (0, "")
        try:
            self._answer: Future[AskedAnswer] = threads.submit(ask, request, self._rest)
        except RuntimeError:  # the threads are closed
            raise ExchangeClosed from None

    def _rest(self, until: int, why: str) -> None:
        self._waits = (until, why)

    def answer(self, resting: Resting) -> AskedAnswer:
        """Wait for it, and tell what it waits for itself."""
        until, why = self._waits
        if until:
            resting(until, why)
        try:
            return self._answer.result()
        except CancelledError:
            raise ExchangeClosed from None
        finally:
            if until:
                resting(0, "")


class PagesAhead:
    """Early questions of all slices; each slice is asked for by one thread at a time."""

    def __init__(self, ask: Ask, *, threads: int) -> None:
        self._ask = ask
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="millstream-http-ahead") if threads else None
        self._asked: dict[str, list[_EarlyQuestion]] = {}

    def answer(
        self, slice_number: str, request: PageRequest, coming: Sequence[PageRequest], resting: Resting
    ) -> AskedAnswer:
        """The answer to a request of a slice; meanwhile those are asked that are expected behind it."""
        if self._threads is None:
            return self._ask(request, resting)
        known = self._asked.pop(slice_number, [])
        if coming:
            self._asked[slice_number] = [self._question(each, known, self._threads) for each in coming]
        mine = next((each for each in known if each.request == request), None)
        return self._ask(request, resting) if mine is None else mine.answer(resting)

    def _question(
        self, request: PageRequest, known: Sequence[_EarlyQuestion], threads: ThreadPoolExecutor
    ) -> _EarlyQuestion:
        asked = next((each for each in known if each.request == request), None)
        return asked or _EarlyQuestion(request, self._ask, threads)

    def close(self) -> None:
        """Ask nothing more; what is under way ends with its connection."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
