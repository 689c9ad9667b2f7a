"""Lines between node and driver: what goes in comes out, and what is no line is refused with a reason."""

import json

import pytest

from millstream.contract.driver_protocol import (
    LINE_BYTES,
    BadLine,
    Bye,
    DriverReport,
    DumpRequest,
    LogLevelWish,
    NodeHello,
    Ping,
    Renewed,
    RunRequest,
    SecretValues,
    decode_node_line,
    decode_report,
    encode_line,
)
from millstream.errors import Fenced

HEAD = {"run": "r", "token": 3}


@pytest.mark.parametrize(
    "line",
    [
        NodeHello(**HEAD, from_seq=4),
        SecretValues(**HEAD, values={"A": "b"}),
        Renewed(**HEAD, left_ms=15_000, sent=1.5),
        RunRequest(**HEAD, id="1", action="savepoint", to="/s", form="native"),
        DumpRequest(**HEAD),
        LogLevelWish(**HEAD, level="debug"),
        Ping(**HEAD),
        Bye(**HEAD),
    ],
)
def test_a_line_down_comes_out_as_it_went_in(line):
    content = encode_line(line)
    assert (content.count(b"\n"), content[-1:]) == (1, b"\n")
    assert {"v", "type", "run", "token"} <= json.loads(content).keys()
    assert decode_node_line(content, run="r", token=3) == line


def test_a_report_comes_out_as_it_went_in():
    report = DriverReport(type="epoch", **HEAD, seq=7, at=1.0, body={"text": "line\nbreak"})
    content = encode_line(report)
    assert content.count(b"\n") == 1
    assert decode_report(content, run="r") == report


def test_values_of_secrets_are_not_shown():
    assert "hunter2" not in repr(SecretValues(**HEAD, values={"PASSWORD": "hunter2"}))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "CTL-101"),
        (b"\xff\xfe", "CTL-101"),
        (b"[]", "CTL-101"),
        (b'{"v":1,"type":"hello","run":"r"}', "CTL-101"),
        (b'{"v":1,"type":"unknown","run":"r","token":3}', "CTL-101"),
        (b'{"v":1,"type":"request","run":"r","token":3,"id":"1","action":"explode"}', "CTL-101"),
        (b'{"v":2,"type":"hello","run":"r","token":3}', "CTL-102"),
        (b'{"v":1,"type":"hello","run":"another","token":3}', "CTL-103"),
        (b" " * (LINE_BYTES + 1), "CTL-100"),
    ],
)
def test_what_is_no_line_of_the_run_is_refused(content, code):
    with pytest.raises(BadLine) as caught:
        decode_node_line(content, run="r", token=3)
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize("token", [2, 4])
def test_another_token_is_fenced(token):
    with pytest.raises(Fenced, match="CTL-104"):
        decode_node_line(encode_line(Ping(run="r", token=token)), run="r", token=3)


def test_a_line_that_is_too_long_is_not_sent():
    with pytest.raises(BadLine, match="CTL-100"):
        encode_line(DriverReport(type="epoch", **HEAD, body={"x": "y" * LINE_BYTES}))


def test_a_refused_line_of_secrets_shows_none_of_them():
    with pytest.raises(BadLine) as caught:
        decode_node_line(b'{"v":1,"type":"secrets","run":"r","token":3,"values":["hunter2"]}', run="r", token=3)
    assert "hunter2" not in str(caught.value)
