"""Answers that are packed for the way: whole or not at all, in as many parts as come, and never more at once than a piece."""

import gzip
import itertools
import zlib

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import QUICK, ids, read_all

from millstream.connectors.http.asking.library import httpcore2
from millstream.connectors.http.asking.packing import unpacked_parts
from millstream.errors import ExternalFailure

TEXT = b"".join(b'{"id": %d, "name": "n%d"}\n' % (number, number * 7919) for number in range(1, 2001))
HALF = TEXT.index(b"\n", len(TEXT) // 2) + 1
_raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
PACKED = {
    "gzip": gzip.compress(TEXT),
    "GZIP, identity": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:HALF]) + gzip.compress(TEXT[HALF:]) + bytes(7),
    "deflate": zlib.compress(TEXT),
    " deflate": _raw.compress(TEXT) + _raw.flush(),
    "identity": TEXT,
    "": TEXT,
}


def pieces(body, size):
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_what_was_packed_comes_out_however_it_was_cut(encoding, size):
    assert b"".join(unpacked_parts(pieces(PACKED[encoding], size), encoding)) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", " deflate"])
def test_a_packed_answer_without_its_end_is_none(encoding):
    whole = PACKED[encoding].rstrip(b"\0")
    for size in (1, len(whole) // 3, len(whole) - 9, len(whole) - 1):
        with pytest.raises(httpcore2.RemoteProtocolError):
            list(unpacked_parts([whole[:size]], encoding))


def test_an_answer_that_is_broken_or_packed_otherwise_is_refused():
    broken = bytearray(PACKED["gzip"])
    broken[-6] ^= 1
    with pytest.raises(httpcore2.RemoteProtocolError):
        list(unpacked_parts([bytes(broken)], "gzip"))
    for encodings in ("br", "gzip, gzip"):
        with pytest.raises(ExternalFailure, match="HTTP-012"):
            list(unpacked_parts([PACKED["gzip"]], encodings))


def test_a_small_answer_that_becomes_huge_comes_in_pieces():
    body = gzip.compress(bytes(64 << 20))
    assert max(map(len, itertools.islice(unpacked_parts([body], "gzip"), 20))) <= 1 << 20
    assert sum(map(len, unpacked_parts([body], "gzip"))) == 64 << 20


def test_no_row_of_an_answer_in_several_parts_is_lost(api):
    api.answer = lambda asked: Reply(PACKED["x-gzip"], headers=(("Content-Encoding", "gzip"),))
    assert ids(read_all(f"{api.url}/items", format="jsonl")) == list(range(1, 2001))


def test_an_answer_that_was_cut_behind_a_line_is_asked_for_again(api):
    """Its lines look whole: without the end of the package nobody would miss the others."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    cut = packer.compress(TEXT[:HALF]) + packer.flush(zlib.Z_SYNC_FLUSH)
    answers = [cut, PACKED["gzip"]]
    api.answer = lambda asked: Reply(answers.pop(0), headers=(("Content-Encoding", "gzip"),))
    assert ids(read_all(f"{api.url}/items", format="jsonl", rate=QUICK)) == list(range(1, 2001))
    assert answers == []
