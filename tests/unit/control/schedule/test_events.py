"""Files that arrive, and calls from outside."""

import datetime as dt
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.control.schedule.arrivals import MOST_ARRIVALS, Watched, check_roots, listed, look
from millstream.control.schedule.webhook import BadCall, HookCall, believe, signature_of
from millstream.errors import InvalidStep

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
SECRET = b"hush"


def names(arrivals):
    return [each.path for each in arrivals]


def test_what_is_there_at_first_does_not_arrive():
    watched = Watched()
    assert look(watched, {"/in/a": (1, 1)}) == []
    assert look(watched, {"/in/a": (1, 1)}) == []


def test_a_file_arrives_when_it_no_longer_grows_and_once():
    watched = Watched(seen={})
    assert look(watched, {"/in/a": (1, 1)}) == []
    assert look(watched, {"/in/a": (2, 2)}) == []
    assert names(look(watched, {"/in/a": (2, 2)})) == ["/in/a"]
    assert look(watched, {"/in/a": (2, 2)}) == []


def test_a_file_that_changes_or_comes_again_arrives_again():
    watched = Watched(seen={"/in/a": [2, 2]})
    assert look(watched, {"/in/a": (3, 3)}) == []
    (changed,) = look(watched, {"/in/a": (3, 3)})
    assert look(watched, {}) == []
    assert look(watched, {"/in/a": (3, 3)}) == []
    (again,) = look(watched, {"/in/a": (3, 3)})
    assert again.cause == changed.cause


def test_many_arrive_a_hundred_at_a_time():
    watched, listing = Watched(seen={}), {f"/in/{n:04}": (1, 1) for n in range(250)}
    look(watched, listing)
    found = [len(look(watched, listing)) for _ in range(4)]
    assert found == [MOST_ARRIVALS, MOST_ARRIVALS, 50, 0]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 2), st.just(0))), max_size=12))
def test_every_arrival_was_the_same_at_two_looks_and_new(looks):
    watched, known = Watched(), None
    for before, now in zip([{}, *looks], looks):
        arrived = look(watched, now)
        if known is None:
            known = dict(now)
        known = {path: found for path, found in known.items() if path in now}
        for each in arrived:
            assert now[each.path] == before[each.path] == (each.size, each.changed)
            assert known.get(each.path) != now[each.path]
            known[each.path] = now[each.path]


def test_files_are_listed_below_their_roots_only(tmp_path):
    root, outside = tmp_path / "in", tmp_path / "out"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "a.csv").write_text("1")
    (root / "b.txt").write_text("2")
    (root / "folder.csv").mkdir()
    (root / "link.csv").symlink_to(outside / "a.csv")
    (root / "gone.csv").symlink_to(root / "nothing")
    assert list(listed(f"{root}/*.csv", [root])) == [f"{root}/a.csv"]
    assert listed(f"{root}/a.csv", [root])[f"{root}/a.csv"][0] == 1
    assert listed(f"{outside}/*.csv", [root]) == {}


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("millstream.control.schedule.arrivals.MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("")
    with pytest.raises(InvalidStep, match="CTL-208"):
        listed(f"{tmp_path}/*", [tmp_path])


@pytest.mark.parametrize("pattern", ["/etc/*", "/data/in*/x", "/data/input2/a", "/*"])
def test_a_pattern_outside_the_roots_is_refused(pattern, tmp_path):
    with pytest.raises(InvalidStep, match="CTL-207"):
        check_roots(pattern, [tmp_path, tmp_path.parent / "other"])
    check_roots(f"{tmp_path}/{os.path.basename(pattern)}", [tmp_path])


def call(*, call_id="c-1", at=0, body=b'{"n": 1}', secret=SECRET, **changed):
    time = str(int(NOW.timestamp()) + at)
    sent = HookCall(call_id, time, signature_of(secret, time, call_id, body), body)
    return sent._replace(**changed)


@pytest.mark.parametrize("at", [-300, -1, 0, 300])
def test_a_signed_and_fresh_call_is_believed(at):
    assert believe(SECRET, call(at=at), NOW) == NOW + dt.timedelta(seconds=at)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (call(secret=b"other"), "CTL-221"),
        (call(body=b"2")._replace(body=b"3"), "CTL-221"),
        (call(call_id="c-2")._replace(call_id="c-3"), "CTL-221"),
        (call()._replace(time=str(int(NOW.timestamp()) + 1)), "CTL-221"),
        (call(signature=""), "CTL-221"),
        (call(signature="sha256=ü"), "CTL-221"),
        (call(signature="\ud800"), "CTL-221"),
        (call(at=-301), "CTL-222"),
        (call(at=301), "CTL-222"),
        (call(call_id=""), "CTL-223"),
        (call(call_id="a b"), "CTL-223"),
        (call(call_id="x" * 129), "CTL-223"),
        (call(time="now"), "CTL-223"),
        (call(time="-5"), "CTL-223"),
        (call(time="9" * 30), "CTL-223"),
    ],
)
def test_a_call_that_is_wrong_is_not_believed(wrong, code):
    with pytest.raises(BadCall) as refused:
        believe(SECRET, wrong, NOW)
    assert refused.value.code == code
    assert "hush" not in str(refused.value)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_signature_is_of_one_body(body, other):
    time = str(int(NOW.timestamp()))
    signed = signature_of(SECRET, time, "id", body)
    assert (signed == signature_of(SECRET, time, "id", other)) == (body == other)
