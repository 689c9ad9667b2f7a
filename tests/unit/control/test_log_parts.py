"""Parts of logs as servers hand them out: what was written comes whole, wherever a part ends."""

import base64

import pytest

from millstream.contract.run_folder import DriverFolder
from millstream.control.drivers.logs import read_log
from millstream.control.nodes.calling import ChannelCalls, RunPlace

TEXT = "a\u00e9\u20ac\U0001f600z" * 5


@pytest.fixture
def calls(tmp_path, monkeypatch):
    folder = DriverFolder(tmp_path)
    folder.logs.mkdir(parents=True)

    def asked(self, place, question, *, token, name, offset, limit):
        part = read_log(folder, name, offset, limit)
        return {"content": base64.b64encode(part.content).decode(), "next_offset": part.next_offset, "size": part.size}

    monkeypatch.setattr(ChannelCalls, "_ask", asked)
    monkeypatch.setattr(ChannelCalls, "_place", lambda self, run: RunPlace(run, 1, "", ""))
    calls = ChannelCalls(None)
    calls.write = (folder.logs / "driver.log").write_bytes
    return calls


def read(calls, limit, offset=0):
    """All that there is, as the command line reads it, and where the next part begins."""
    texts = []
    for _ in range(200):
        part = calls.log("r", "driver", offset, limit)
        texts.append(part["text"])
        offset = part["next"]
        if part["next"] >= part["size"]:
            return "".join(texts), offset
    pytest.fail("it does not come to an end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 1000])
def test_a_character_is_not_split_between_two_parts(calls, limit):
    calls.write(TEXT.encode())
    assert read(calls, limit) == (TEXT, len(TEXT.encode()))


def test_a_character_that_is_being_written_comes_when_it_is_there(calls):
    whole = "ab\u20ac".encode()
    for length in (3, 4):
        calls.write(whole[:length])
        assert read(calls, 1000) == ("ab", 2)
        assert read(calls, 1000, 2) == ("", 2)
    calls.write(whole)
    assert read(calls, 1000, 2) == ("\u20ac", 5)


def test_what_is_no_text_is_marked(calls):
    calls.write(b"a\xff\xfeb\xc3")
    assert read(calls, 4) == ("a\ufffd\ufffdb", 4)
