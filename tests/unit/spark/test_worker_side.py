"""The parts of the Spark backend that need no JVM: slots, errors on their way, pages, shipped plans."""

import subprocess
import sys
import textwrap

import cloudpickle
import pytest

import millstream as ms
from millstream.errors import ExternalFailure, InvalidSchema, StepFailed
from millstream.plan.deployment import Deployment
from millstream.spark.query import level as level_module
from millstream.spark.query.errors import WorkerError, carried, translated
from millstream.spark.query.level import Shipped
from millstream.spark.query.slots import slot_labels, spark_hash
from millstream.spark.query.state import MapStatePages


def test_labels_are_a_bijection_for_every_parallelism():
    for parallelism in (*range(1, 40), 128, 1000):
        labels = slot_labels(parallelism)
        assert [spark_hash(label) % parallelism for label in labels] == list(range(parallelism))
        assert len(set(labels)) == parallelism


def test_the_hash_is_sparks():
    """`SELECT hash(0), hash(1), hash(42)` in Spark 4."""
    assert [spark_hash(value) for value in (0, 1, 42)] == [933211791, -559580957, 29417773]


NASTY = 'a }>> "quoted" \\ back\nnew <<millstream: ünï {"a": "}>>"}'


@pytest.mark.parametrize("wrap", [str, repr, lambda text: f'"{text}"', lambda text: text.replace('"', '\\"')])
def test_our_errors_survive_the_jvm_with_all_fields(wrap):
    problem = StepFailed(NASTY, step="s", found=NASTY, known=[NASTY], hint=NASTY, code="RUN-042")
    with pytest.raises(WorkerError) as caught, carried():
        raise problem
    text = f"Job aborted: Traceback...\n{wrap(str(caught.value))}\n\tat org.apache.spark.Thing"
    again = translated(RuntimeError(text))
    assert type(again) is StepFailed
    assert again.fields() == problem.fields()


def test_our_own_errors_are_left_alone():
    problem = InvalidSchema("x")
    assert translated(problem) is problem


def test_other_errors_get_a_headline_without_noise():
    text = "Job aborted due to stage failure\nValueError: deep\nTraceback\npyarrow.lib.ArrowException: wrong column\n\tat java"
    found = translated(RuntimeError(text))
    assert isinstance(found, ExternalFailure)
    assert (found.code, "pyarrow.lib.ArrowException: wrong column" in found.message) == ("SPARK-001", True)
    assert "first line" in translated(RuntimeError("first line\nsecond")).message
    assert "RuntimeError" in translated(RuntimeError("")).message


def test_carried_lets_other_errors_through():
    with pytest.raises(ZeroDivisionError), carried():
        raise ZeroDivisionError


class FakeMapState:
    """Spark's MapState of one subtask."""

    def __init__(self):
        self.content = {}

    def getValue(self, key):
        return self.content.get(key[0])

    def updateValue(self, key, value):
        self.content[key[0]] = value

    def removeKey(self, key):
        self.content.pop(key[0], None)


def test_plain_pages():
    pages = MapStatePages(FakeMapState())
    assert pages.get("a") is None
    pages.put("a", b"1")
    assert pages.get("a") == b"1"
    pages.delete("a")
    pages.delete("a")
    assert pages.get("a") is None


def shipped_job(function):
    job = ms.Job("shipped")
    rows = job.source("in", ms.memory([]), schema="a long").map(function, schema="a long", id="m")
    rows.key_by("a").aggregate(n=ms.count(), id="n").sink("out", ms.collect("x"))
    return job.compile(Deployment()).deployment


def test_a_plan_is_compiled_once_per_process_and_level():
    add = 3
    shipped = cloudpickle.loads(cloudpickle.dumps(Shipped(shipped_job(lambda row: {"a": row["a"] + add}), [0, 1])))
    assert shipped.program(0) is shipped.program(0)
    assert shipped.program(0) is not shipped.program(1)
    assert (shipped.program(0).level, shipped.program(1).is_last) == (0, True)
    assert shipped.labels == [0, 1]


def test_the_number_of_kept_plans_is_bounded():
    for number in range(40):
        Shipped(shipped_job(lambda row, n=number: {"a": n}), [0]).program(0)
    assert len(level_module._programs) <= level_module._KEPT_PLANS


def test_user_modules_travel_by_value(tmp_path):
    """A worker without the user's folder on its path can still load the plan."""
    (tmp_path / "users_code.py").write_text("def double(row):\n    return {'a': row['a'] * 2}\n")
    script = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import users_code, millstream as ms
        from millstream.plan.deployment import Deployment
        from millstream.spark.query.shipping import ship_by_value
        from millstream.spark.query.level import Shipped
        import cloudpickle
        job = ms.Job("shipped")
        job.source("in", ms.memory([]), schema="a long").map(users_code.double, schema="a long").sink("out", ms.collect("x"))
        plan = job.compile(Deployment()).deployment
        ship_by_value(plan)
        content = cloudpickle.dumps(Shipped(plan, [0, 1]))
        open({str(tmp_path / "plan")!r}, "wb").write(content)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd="/")
    loading = (
        f"import cloudpickle; print(cloudpickle.loads(open({str(tmp_path / 'plan')!r}, 'rb').read()).program(0).level)"
    )
    done = subprocess.run(
        [sys.executable, "-c", loading], check=True, timeout=60, cwd="/", capture_output=True, text=True
    )
    assert done.stdout.strip() == "0"


class Lived:
    """Tells its process what happens to it."""

    happened = []

    def __init__(self, name):
        self.name = name

    def open(self, ctx):
        Lived.happened.append(("open", self.name))

    def __call__(self, row):
        return {"a": row["a"]}

    def close(self):
        Lived.happened.append(("close", self.name))


def begun(shipped):
    shipped.program(0).functions.begin({}, subtask=0, attempt=0)


def test_a_plan_is_opened_once_and_closed_when_others_take_its_place():
    Lived.happened.clear()
    plans = [Shipped(shipped_job(Lived(number)), [0]) for number in range(level_module._KEPT_PLANS + 1)]
    for shipped in plans[:-1]:
        begun(shipped)
    for _ in range(3):
        for shipped in plans[:-1]:
            begun(shipped)
            shipped.program(1)
    assert [each for each in Lived.happened if each[0] == "open"] == [("open", n) for n in range(len(plans) - 1)]
    begun(plans[-1])
    assert [each for each in Lived.happened if each[0] == "close"] == [("close", 0)]


def test_a_plan_that_was_closed_is_opened_again_by_its_next_run():
    Lived.happened.clear()
    shipped = Shipped(shipped_job(Lived("again")), [0])
    for _ in range(2):
        begun(shipped)
        assert level_module.close_functions(shipped.digest) == 1
        level_module.close_functions(shipped.digest)
    mine = [each for each in Lived.happened if each[1] == "again"]
    assert mine == [("open", "again"), ("close", "again")] * 2


def test_functions_inside_patterns_and_triggers_travel_by_value(tmp_path):
    """A worker without the user's folder on its path can still load the plan."""
    (tmp_path / "users_rules.py").write_text(
        "import millstream as ms\n"
        "def high(row):\n    return row['a'] > 1\n"
        "class Always(ms.Trigger):\n    def on_row(self, row, window, ctx):\n        return ms.TriggerResult.FIRE\n"
    )
    script = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import users_rules, millstream as ms
        from millstream.plan.deployment import Deployment
        from millstream.spark.query.compile import ship
        import cloudpickle
        job = ms.Job("shipped")
        keyed = job.source("in", ms.memory([]), schema="a long").key_by("a")
        keyed.pattern(ms.pattern.begin("x").where(users_rules.high)).measures(b="x.a", id="p").sink("p-out", ms.collect("x"))
        keyed.window(ms.global_window(), trigger=users_rules.Always).aggregate(n=ms.count(), id="w").sink("out", ms.collect("x"))
        open({str(tmp_path / "plan")!r}, "wb").write(cloudpickle.dumps(ship(job.compile(Deployment()).deployment)))
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd="/")
    loading = (
        f"import cloudpickle; print(cloudpickle.loads(open({str(tmp_path / 'plan')!r}, 'rb').read()).program(1).level)"
    )
    done = subprocess.run(
        [sys.executable, "-c", loading], check=True, timeout=60, cwd="/", capture_output=True, text=True
    )
    assert done.stdout.strip() == "1"
