"""What a source decides once stays decided, whoever asks."""

import threading

import pytest

from millstream.connectors.decided import decided_once
from millstream.errors import CheckpointRefused


def test_the_first_answer_stays(tmp_path):
    assert decided_once(tmp_path, "start", lambda: {"at": 1}) == {"at": 1}
    assert decided_once(tmp_path, "start", lambda: pytest.fail("it is decided")) == {"at": 1}
    assert decided_once(tmp_path, "end", lambda: {"at": 2}) == {"at": 2}


def test_of_two_that_decide_at_once_one_is_believed_by_both(tmp_path):
    meeting, answers = threading.Barrier(8), []

    def ask(number):
        def decide():
            meeting.wait()
            return number

        answers.append(decided_once(tmp_path, "start", decide))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1


def test_a_failed_decision_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="away"):
        decided_once(tmp_path, "start", lambda: (_ for _ in ()).throw(OSError("away")))
    assert decided_once(tmp_path, "start", lambda: 5) == 5


def test_a_damaged_decision_is_refused(tmp_path):
    decided_once(tmp_path, "start", lambda: {"at": 1})
    (tmp_path / "start.json").write_text((tmp_path / "start.json").read_text().replace('"at":1', '"at":2'))
    with pytest.raises(CheckpointRefused) as refused:
        decided_once(tmp_path, "start", lambda: 5)
    assert refused.value.code == "CKPT-003"


def test_without_a_folder_the_one_who_asks_keeps_the_answer():
    assert decided_once(None, "start", lambda: 1) == 1
    assert decided_once(None, "start", lambda: 2) == 2
