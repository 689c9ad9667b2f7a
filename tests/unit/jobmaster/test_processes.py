"""What processes of a run take: those below this one, by what they are for, against the limits of this machine."""

import os

import pytest

from millstream.jobmaster.processes import ProcessWatch, memory_limit, processor_limit, read_processes

PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@pytest.fixture
def machine(tmp_path):
    """A `/proc` of our own: pid, parent, name, ticks and pages of processes; a group that may use half a processor."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    cgroup.mkdir()
    (cgroup / "cpu.max").write_text("50000 100000\n")
    (cgroup / "memory.max").write_text(f"{1000 * PAGE}\n")

    def write(*processes):
        for pid, parent, name, ticks, pages in processes:
            fields = ["S", parent, *[0] * 9, ticks, 0, 500, 500, *[0] * 6, pages, 0]
            (proc / str(pid)).mkdir(parents=True, exist_ok=True)
            (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        return proc, cgroup

    return write


def test_processes_are_told_apart_by_what_they_are_for(machine):
    me = os.getpid()
    places = machine(
        (me, 1, "python", 10, 100), (7, me, "java", 5, 200), (8, 7, "odd) (name", 5, 30), (9, 8, "python", 5, 20),
        (10, 1, "other", 99999, 900),
    )  # fmt: skip
    watch = ProcessWatch(*places, every=0)
    machine((me, 1, "python", 10, 100), (9, 8, "python", 5 + 10 * TICKS, 20))
    found = watch.loads()
    assert {kind: round(load.memory, 3) for kind, load in found.items()} == {"driver": 0.1, "jvm": 0.2, "workers": 0.05}
    assert found["driver"].cpu == found["jvm"].cpu == 0
    assert found["workers"].cpu > 1, "ten seconds of a processor, in no time"


def test_the_limit_of_the_run_counts_where_it_is_lower(machine):
    places = machine((os.getpid(), 1, "python", 10, 100))
    for limit, share in ((200 * PAGE, 0.5), (5000 * PAGE, 0.1)):
        assert ProcessWatch(*places, every=0, limit=limit).loads()["driver"].memory == share


def test_it_looks_now_and_then(machine):
    me = os.getpid()
    watch = ProcessWatch(*machine((me, 1, "python", 10, 100)), every=3600)
    first = watch.loads()
    machine((me, 1, "python", 10, 700))
    assert watch.loads() is first


def test_limits_of_the_group_and_without_one(machine, tmp_path):
    proc, cgroup = machine()
    assert processor_limit(cgroup) == 0.5
    assert memory_limit(proc, cgroup) == 1000 * PAGE
    (cgroup / "cpu.max").write_text("max 100000\n")
    (cgroup / "memory.max").write_text("max\n")
    proc.mkdir(exist_ok=True)
    (proc / "meminfo").write_text("MemTotal:       2048 kB\n")
    assert processor_limit(cgroup) >= 1
    assert memory_limit(proc, cgroup) == 2048 * 1024
    assert read_processes(tmp_path / "nothing") == []
    assert ProcessWatch(tmp_path / "nothing", tmp_path / "nothing").loads() == {}
