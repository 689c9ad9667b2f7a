"""The page of the http connector has a table for every option that is a mapping, and they say what the code says."""

import re

import pytest
from tests.docs.pages import ROOT

from millstream.connectors.http import settings
from millstream.connectors.http.asking import actions, auth, rates
from millstream.connectors.http.paging import paginators, predicates, slices, stops, windows
from millstream.connectors.http.spec import DECLARATION

PAGE = (ROOT / "docs/reference/http.md").read_text()
SIZES = ("size", "size_param", "size_in")


def without(fields, names):
    return {name: each for name, each in fields.items() if name not in names}


TABLES = {
    "As a source": DECLARATION.source.options,
    "As a sink": DECLARATION.sink.options,
    "every paginator": paginators.FIELDS["single"],
    **{
        f"paginator `{kind}`": fields if kind == "offset" else without(fields, SIZES)
        for kind, fields in paginators.FIELDS.items()
        if kind not in ("single", "auto")
    },
    "stop": stops.FIELDS,
    "`total`": stops.TOTAL,
    "`has_more`": stops.HAS_MORE,
    "predicate": predicates.FIELDS,
    "window": windows.FIELDS,
    **{f"slices `{kind}`": fields for kind, fields in slices.FIELDS.items()},
    "incremental": settings.INCREMENTAL,
    **{f"auth `{kind}`": fields for kind, fields in auth.FIELDS.items() if kind != "oauth2_refresh_token"},
    "auth `oauth2_refresh_token`": without(
        auth.FIELDS["oauth2_refresh_token"], auth.FIELDS["oauth2_client_credentials"]
    ),
    "rate": rates.FIELDS,
    "on_status": without(actions.FIELDS, predicates.FIELDS),
}


def default_of(option):
    if option.is_required:
        return "required"
    if (
        option.default is None
        or option.default == []
        or option.default == {}
        or not isinstance(option.default, (str, int, dict))
    ):
        return "none"
    if option.default == "":
        return "empty"
    text = str(option.default)
    return f"`{text}`" if text.strip() == text else f'`"{text}"`'


def choices_of(option):
    named = [str(each) for each in option.choices if each is not None]
    return f" ({', '.join(f'`{each}`' for each in named)})" if named else ""


def table_of(fields):
    """The lines of a table, as the code has them."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    return lines + [
        f"| `{name}` | {default_of(each)} | {each.doc}{choices_of(each)} |" for name, each in fields.items()
    ]


def section_of(title):
    """The text behind `**title**` or a heading, up to the next of either."""
    for mark in (f"\n## {title}\n", f"\n### {title}\n", f"\n**{title}**"):
        if mark in PAGE:
            return re.split(r"\n(?:##|\*\*)", PAGE.partition(mark)[2])[0]
    raise AssertionError(f"no section {title!r}")


@pytest.mark.parametrize("title", TABLES)
def test_the_table_is_that_of_the_code(title):
    expected = table_of(TABLES[title])
    written = [line for line in section_of(title).splitlines() if line.startswith("|")]
    assert written[: len(expected)] == expected


def test_every_action_and_what_is_usual_is_named():
    text = section_of("on_status")
    assert [each for each in actions.ACTIONS if f"`{each}`" not in text] == []


def test_every_error_of_the_connector_is_in_the_reference():
    code = "".join(path.read_text() for path in (ROOT / "src/millstream/connectors").rglob("*.py"))
    errors = (ROOT / "docs/reference/errors.md").read_text()
    used = set(re.findall(r'code="((?:HTTP|INTAKE)-\d+)"', code))
    assert len(used) >= 20
    assert {each for each in used if f"| {each} |" not in errors} == set()
    assert set(re.findall(r"^\| ((?:HTTP|INTAKE)-\d+) \|", errors, re.MULTILINE)) == used


if __name__ == "__main__":
    for name, fields in TABLES.items():
        print(f"**{name}**\n\n" + "\n".join(table_of(fields)) + "\n")
