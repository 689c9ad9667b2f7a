"""Keys in state that was written before floating-point keys had one form: brought into it when a step opens its state.

The forms of a key share a hash, so they lie on one page: a page is changed on its own, and only once, because the directory
of the step says that its keys are canonical. Where a key was stored in several forms they are made one if what they hold can be
merged, and refused by name otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from millstream.errors import CheckpointRefused
from millstream.model.schema import Schema
from millstream.records.canonical_keys import are_canonical, canonical_value, float_columns, with_canonical
from millstream.state.pages import Due, EntryPage, PageId, StepPages

MergeSlots = Callable[[list[Any], list[Any]], list[Any]]
"""Makes the slots of two entries one."""
MergeRows = Callable[[pa.Table], pa.Table]
"""Makes stored rows of equal keys one."""
_ANY = msgspec.msgpack.Decoder()
_PAGE = msgspec.msgpack.Decoder(EntryPage)
_ENCODER = msgspec.msgpack.Encoder()


def rekey_entries(
    pages: StepPages, keys: Schema, entry: msgspec.msgpack.Decoder[Any], merge: MergeSlots | None
) -> None:
    """Bring the keys of entries into their one form; `merge` where two entries of a key can be made one."""
    for place, _ in _pages_to_do(pages, float_columns(keys.names, keys)):
        page = _PAGE.decode(_content(pages, place))
        forms: dict[bytes, list[bytes]] = {}
        for key in page.entries:
            forms.setdefault(canonical_key(key), []).append(key)
        if any(stored != [form] for form, stored in forms.items()):
            moved = _rekeyed(pages.step, page, forms, entry, merge)
            pages.write(place, _ENCODER.encode(moved), moved.first_due())


def _rekeyed(
    step: str,
    page: EntryPage,
    forms: dict[bytes, list[bytes]],
    entry: msgspec.msgpack.Decoder[Any],
    merge: MergeSlots | None,
) -> EntryPage:
    moved = EntryPage({}, {})
    for form, (first, *others) in forms.items():
        raw = page.entries[first]
        if others:
            if merge is None:
                raise several_forms(step, [_ANY.decode(key) for key in (first, *others)])
            raw = _merged([page.entries[key] for key in (first, *others)], entry, merge)
        moved.entries[form] = raw
        if first in page.due:
            moved.due[form] = page.due[first]
    return moved


def _merged(raws: list[msgspec.Raw], entry: msgspec.msgpack.Decoder[Any], merge: MergeSlots) -> msgspec.Raw:
    """Only entries of running results are merged, which wait for nothing."""
    *slots, event, processing, expiry = entry.decode(raws[0])
    for raw in raws[1:]:
        slots = merge(slots, list(entry.decode(raw)[:-3]))
    return msgspec.Raw(_ENCODER.encode((*slots, event, processing, expiry)))


def rekey_columns(
    pages: StepPages, schema: pa.Schema, keys: tuple[str, ...], merge: MergeRows, *, is_merged: bool
) -> None:
    """Bring the keys of partial results into their one form; without `is_merged` no two of them may become one."""
    for place, due, rows in _rows_to_do(pages, schema, keys):
        merged = merge(pa.Table.from_batches([with_canonical(rows, float_columns(keys, schema))]))
        if merged.num_rows < rows.num_rows and not is_merged:
            raise several_forms(pages.step, _forms_of(rows, keys))
        _write(pages, place, merged.select(schema.names).cast(schema).combine_chunks().to_batches()[0], due)


def rekey_rows(pages: StepPages, schema: pa.Schema, keys: tuple[str, ...]) -> bool:
    """Bring the keys of rows that are kept one by one into their one form; says whether any had another."""
    is_changed = False
    for place, due, rows in _rows_to_do(pages, schema, keys):
        _write(pages, place, with_canonical(rows, float_columns(keys, schema)), due)
        is_changed = True
    return is_changed


def several_forms(step: str, keys: Iterable[Iterable[Any]]) -> CheckpointRefused:
    """A key that was stored in several forms, of which only one may be."""
    msg = "state is stored under several forms of what is one key now, and cannot be merged"
    return CheckpointRefused(
        msg,
        code="CKPT-070",
        step=step,
        found=" and ".join(f"({', '.join(map(_shown, key))})" for key in keys),
        known="0.0 for both zeros, one NaN",
        hint="give the step another uid to start it without state, or run the version that wrote it until one of them is gone",
    )


def _pages_to_do(pages: StepPages, floats: tuple[str, ...]) -> Iterator[tuple[PageId, Due]]:
    """The pages whose keys may have another form; behind the last one the directory says that none has."""
    if floats and not pages.has_canonical_keys:
        yield from list(pages)
        pages.mark_canonical()


def canonical_key(key: bytes) -> bytes:
    """An encoded key in its one form."""
    return _ENCODER.encode(list(map(canonical_value, _ANY.decode(key))))


def _rows_to_do(
    pages: StepPages, schema: pa.Schema, keys: tuple[str, ...]
) -> Iterator[tuple[PageId, Due, pa.RecordBatch]]:
    """Pages of rows of which some have a key in another form."""
    floats = float_columns(keys, schema)
    for place, due in _pages_to_do(pages, floats):
        rows = pa.ipc.read_record_batch(pa.py_buffer(_content(pages, place)), schema)
        if not are_canonical(rows, floats):
            yield place, due, rows


def _content(pages: StepPages, place: PageId) -> bytes:
    content = pages.read(place)
    assert content is not None, f"the directory of {pages.step!r} lists page {place}"
    return content


def _write(pages: StepPages, place: PageId, rows: pa.RecordBatch, due: Due) -> None:
    pages.write(place, rows.serialize().to_pybytes(), due)


def _forms_of(rows: pa.RecordBatch, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The first key of a page that is there in several forms."""
    forms: dict[bytes, dict[bytes, tuple[Any, ...]]] = {}
    for key in zip(*(rows.column(name).to_pylist() for name in keys), strict=True):
        stored = _ENCODER.encode(
            [str(value) if value is not None and not isinstance(value, float) else value for value in key]
        )
        forms.setdefault(canonical_key(stored), {})[stored] = key
    return list(next(keys_of_form for keys_of_form in forms.values() if len(keys_of_form) > 1).values())


def _shown(value: Any) -> str:
    """NaNs by their bits: they look alike."""
    return struct.pack(">d", value).hex() if value != value else repr(value)  # noqa: PLR0124
