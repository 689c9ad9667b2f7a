"""`watermark:` in a job file: `ascending`, `none`, `{bounded: 5s}`, `{punctuated: expression}`, `{generator: module:Class}`."""

from __future__ import annotations

from typing import Any

from millstream.api.jobfile.forms import mapping, refuse_unknown, wrong_form
from millstream.api.jobfile.written_step import WrittenStep
from millstream.api.values import watermark

OPTIONS = ("max_delay", "watermark", "interval", "idle_after", "align", "max_drift")
_PLAIN = {"ascending": watermark.ascending, "none": watermark.none}
_FORMS = "ascending, none, {bounded: 5s}, {punctuated: expression, column: name} or {generator: 'module:Class'}"


def event_time_options(step: WrittenStep) -> dict[str, Any]:
    """The options of an `event_time` step as the API takes them."""
    given = step.given(*OPTIONS)
    if "watermark" in given:
        given["watermark"] = _strategy(given["watermark"])
    if not isinstance(given.get("align", ""), str):
        raise wrong_form(given["align"], "align:", "the name of a group")
    return given


def _strategy(written: Any) -> watermark.WatermarkLike:
    if isinstance(written, str):
        if written not in _PLAIN:
            raise wrong_form(written, "watermark:", _FORMS)
        return _PLAIN[written]()
    content = mapping(written, "watermark:", _FORMS)
    kinds = [kind for kind in ("bounded", "punctuated", "generator") if kind in content]
    if len(kinds) != 1:
        raise wrong_form(written, "watermark:", _FORMS)
    kind = kinds[0]
    refuse_unknown(content, (kind, "column") if kind == "punctuated" else (kind,), f"{kind} watermark")
    if kind == "bounded":
        return watermark.bounded(content[kind])
    if not isinstance(content[kind], str) or not isinstance(content.get("column", ""), str):
        raise wrong_form(written, "watermark:", _FORMS)
    return content[kind] if kind == "generator" else watermark.punctuated(content[kind], content.get("column"))
