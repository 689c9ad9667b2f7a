import io
import zlib

import pytest

from millstream.connectors.intake.frames import TornFrame, framed, read_body, read_head, whole_frames

HEADS = [{"rows": 1, "note": None}, {"rows": 0, "note": {"slice": "ä"}}, {"rows": 7, "note": [1, "two"]}]
BODIES = [b"first", b"", bytes(range(256)) * 3]
CONTENT = b"".join(framed(head, body) for head, body in zip(HEADS, BODIES, strict=True))


def read(content, start=0, end=None):
    file = io.BytesIO(content)
    return [(frame.head, read_body(file, frame)) for frame in whole_frames(file, start, end)]


def test_frames_come_back_as_they_were_written():
    assert read(CONTENT) == list(zip(HEADS, BODIES, strict=True))


def test_frames_follow_each_other_without_a_gap():
    frames = list(whole_frames(io.BytesIO(CONTENT), 0))
    assert [frame.start for frame in frames] == [0, *(frame.end for frame in frames[:-1])]
    assert frames[-1].end == len(CONTENT)
    assert read(CONTENT, frames[1].start, frames[1].end) == [(HEADS[1], BODIES[1])]


def test_a_torn_end_counts_for_nothing():
    ends = [frame.end for frame in whole_frames(io.BytesIO(CONTENT), 0)]
    for cut in range(len(CONTENT)):
        assert len(read(CONTENT[:cut])) == sum(end <= cut for end in ends)


def test_a_changed_byte_is_noticed():
    written = list(zip(HEADS, BODIES, strict=True))
    for place in range(len(CONTENT)):
        changed = bytearray(CONTENT)
        changed[place] ^= 0x40
        found = read(bytes(changed))
        assert found == written[: len(found)]
        assert len(found) < len(written), place


def test_zeros_in_place_of_a_frame_are_torn():
    with pytest.raises(TornFrame):
        read_head(io.BytesIO(CONTENT + bytes(64)), len(CONTENT))
    assert len(read(CONTENT + bytes(64))) == 3


def test_a_head_that_says_it_is_endless_is_torn():
    lengths = (0xFFFFFFFF).to_bytes(4, "big") + bytes(8)
    mark = b"msIN" + lengths[:8] + zlib.crc32(lengths).to_bytes(4, "big") + lengths[8:]
    with pytest.raises(TornFrame):
        read_head(io.BytesIO(mark), 0)


def test_the_end_of_a_file_is_no_frame():
    assert read_head(io.BytesIO(CONTENT), len(CONTENT)) is None
