"""Checks that hold under `python -O` as well, where assert statements are not run."""

import contextlib

from millstream.errors import MillstreamError


class Broken(Exception):
    """Something that must hold does not."""


def must(holds, what):
    """Raise unless it holds."""
    if not holds:
        raise Broken(what)


@contextlib.contextmanager
def refused(*codes):
    """The body must be refused with one of these codes; any other end is a failure, an error of Python's own too."""
    try:
        yield
    except MillstreamError as problem:
        must(problem.code in codes, f"refused with {problem.code} instead of {codes}: {problem}")
        must(problem.hint, f"{problem.code} says no way out")
    else:
        raise Broken(f"accepted; {codes} was expected")
