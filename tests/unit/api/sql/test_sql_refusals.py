"""Every clause that is not offered is refused where the statement is written, with its place and what would work."""

import pytest
from tests.unit.api.sql.streams import streams

import millstream as ms
from millstream.errors import MillstreamError

RANKED = "FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user ORDER BY x) AS rn FROM stream)"
TUMBLE = "FROM TUMBLE(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND)"
BOTH = "FROM stream a JOIN other b ON a.x = b.id"
VERSIONS = "FROM stream a JOIN other FOR SYSTEM_TIME AS OF a.at AS b"
IN_WINDOWS = f"FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {{}} ORDER BY x) AS rn {TUMBLE})"
IN_SESSIONS = IN_WINDOWS.format("window_start, window_end").replace("TUMBLE", "SESSION")
LEFT_WINDOW = "FROM TUMBLE(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND) a"
ONE, TWO, THREE = (f"INTERVAL '{count}' SECOND" for count in (1, 2, 3))
GROUPED = "SELECT COUNT(*) AS n FROM stream GROUP BY"
BY_WINDOW = "GROUP BY user, window_start, window_end"
OTHER_END = f"SELECT TUMBLE_END(at, {TWO}) AS e FROM stream GROUP BY TUMBLE(at, {ONE})"
SAME_NAME = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY x ORDER BY user) AS x FROM stream) WHERE x <= 2"
WINDOW_CASES = [
    ("STEP-145", f"SELECT user {TUMBLE}", "without GROUP BY", "ROW_NUMBER"),
    (
        "STEP-145",
        f"SELECT * {IN_WINDOWS.format('user')} WHERE rn <= 2",
        "their window (line 1, column 26)",
        "window_end, user",
    ),
    (
        "STEP-145",
        f"SELECT * {IN_WINDOWS.format('window_start')} WHERE rn <= 2",
        "their window",
        "window_start, window_end",
    ),
    ("STEP-145", f"SELECT * {IN_SESSIONS} WHERE rn <= 2", "sessions are not ranked", "process"),
    ("STEP-145", f"SELECT user FROM TUMBLE(stream, DESCRIPTOR(at), {ONE})", "TUMBLE is written otherwise", "correct"),
    ("STEP-145", "SELECT user FROM TUMBLE() GROUP BY user", "TUMBLE is written otherwise", "correct"),
    (
        "STEP-145",
        f"SELECT user FROM CUMULATE(TABLE stream, DESCRIPTOR(at), {TWO}, {THREE}) {BY_WINDOW}",
        "multiple",
        "step",
    ),
    ("STEP-145", f"{GROUPED} TUMBLE(at)", "TUMBLE is written otherwise", "correct"),
    ("STEP-145", f"{GROUPED} CUMULATE(at, {ONE}, {TWO})", "no place in GROUP BY", "FROM CUMULATE(TABLE"),
    ("STEP-145", f"SELECT COUNT(*) AS n {TUMBLE} GROUP BY TUMBLE(at, {ONE})", "two windows", "keep one"),
    ("STEP-146", f"{GROUPED} TUMBLE(x, {ONE})", "needs it to be the event time", "event_time('x')"),
    ("STEP-143", OTHER_END, "another window", f"TUMBLE_END(at, {ONE})"),
    ("STEP-143", SAME_NAME, "two columns of one name", "AS"),
]
CASES = [
    *WINDOW_CASES,
    ("STEP-140", "", "empty", "SELECT"),
    ("STEP-140", " -- nothing", "empty", "SELECT"),
    ("STEP-140", "SELEC a FROM stream", "not a SELECT", "SELECT"),
    ("STEP-140", "SELECT a FRM stream", "cannot be read", "correct"),
    ("STEP-140", "SELECT user FROM stream; SELECT x FROM stream", "several statements (line 1, column 24)", "one sql"),
    ("STEP-140", "DELETE FROM stream", "not a SELECT", "SELECT"),
    ("STEP-140", "CREATE TABLE a (b int)", "not a SELECT", "SELECT"),
    ("STEP-140", "INSERT INTO a SELECT user FROM stream", "not a SELECT", "SELECT"),
    ("STEP-140", "VALUES (1)", "not a SELECT", "SELECT"),
    ("STEP-140", "SELECT 'a' 'b' AS c FROM stream", "side by side", "||"),
    ("STEP-140", "SELECT user FROM stream WHERE x = ?", "placeholder", ""),
    ("STEP-140", "SELECT " + "(" * 60 + "x" + ")" * 60 + " AS y FROM stream", "nested", "split"),
    ("STEP-140", f"SELECT user FROM stream WHERE user = '{'a' * 10_000}'", "longer than", "split"),
    ("STEP-141", "SELECT user\nFROM stream\nORDER BY x", "ORDER BY is not offered (line 3, column 1)", "ROW_NUMBER"),
    ("STEP-141", "SELECT user FROM stream LIMIT 3", "LIMIT", "ROW_NUMBER"),
    ("STEP-141", "SELECT user FROM stream OFFSET 3", "OFFSET", "ROW_NUMBER"),
    ("STEP-141", "SELECT user FROM stream SORT BY x", "SORT BY", "ROW_NUMBER"),
    ("STEP-141", "SELECT user FROM stream CLUSTER BY x", "CLUSTER BY", "key_by"),
    ("STEP-141", "SELECT user FROM stream DISTRIBUTE BY x", "DISTRIBUTE BY", "key_by"),
    ("STEP-141", "SELECT SUM(x) OVER (PARTITION BY user) AS s FROM stream", "OVER", "window"),
    ("STEP-141", "SELECT FIRST(x) OVER w AS s FROM stream WINDOW w AS (PARTITION BY user)", "WINDOW", "TUMBLE"),
    ("STEP-141", "SELECT user FROM stream QUALIFY x > 1", "QUALIFY", "ROW_NUMBER"),
    ("STEP-141", "WITH RECURSIVE a AS (SELECT x FROM stream) SELECT x FROM a", "RECURSIVE", "process"),
    ("STEP-141", "SELECT x FROM (WITH a AS (SELECT x FROM stream) SELECT x FROM a) b", "WITH inside", "before the whole"),
    ("STEP-142", "WITH a AS (SELECT x FROM stream) SELECT x FROM stream", "does not read 'a'", "FROM a"),
    ("STEP-142", "WITH stream AS (SELECT x FROM stream) SELECT x FROM stream", "two tables", "another name"),
    ("STEP-152", "WITH a AS (SELECT COUNT(*) AS n FROM stream) SELECT MAX(n) AS m FROM a", "aggregate over", "emit="),
    ("STEP-141", "SELECT user FROM stream MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 1)", "MATCH_RECOGNIZE", ".pattern("),
    ("STEP-141", "SELECT user FROM stream WHERE x IN (SELECT id FROM other)", "IN", "job.sql"),
    ("STEP-141", "SELECT user FROM stream WHERE EXISTS (SELECT id FROM other)", "EXISTS", "job.sql"),
    ("STEP-141", "SELECT (SELECT 1) AS a FROM stream", "subquery", "job.sql"),
    ("STEP-141", "SELECT user FROM stream WHERE x > (SELECT MAX(id) FROM other)", "subquery", "job.sql"),
    ("STEP-141", "SELECT user FROM stream GROUP BY GROUPING SETS ((user))", "GROUPING SETS", "each grouping"),
    ("STEP-141", "SELECT user FROM stream GROUP BY ROLLUP(user)", "ROLLUP", "each grouping"),
    ("STEP-141", "SELECT user FROM stream GROUP BY CUBE(user)", "CUBE", "each grouping"),
    ("STEP-141", "SELECT user FROM stream GROUP BY user WITH ROLLUP", "ROLLUP", "each grouping"),
    ("STEP-141", "SELECT user FROM stream GROUP BY ALL", "ALL", "name the columns"),
    ("STEP-141", "SELECT user FROM stream UNION SELECT user FROM stream", "UNION", "UNION ALL"),
    ("STEP-141", "SELECT user FROM stream UNION ALL SELECT user, x FROM stream", "different columns", "as many"),
    ("STEP-141", "SELECT user FROM stream EXCEPT SELECT user FROM stream", "EXCEPT", "connect"),
    ("STEP-141", "SELECT user FROM stream INTERSECT SELECT user FROM stream", "INTERSECT", "join"),
    ("STEP-141", "SELECT user FROM stream TABLESAMPLE (1 ROWS)", "TABLESAMPLE", "filter"),
    ("STEP-141", "SELECT user FROM stream LATERAL VIEW explode(tags) t AS q", "LATERAL VIEW", "flat_map"),
    ("STEP-141", "SELECT user FROM stream PIVOT (SUM(x) FOR user IN ('a'))", "PIVOT", "FILTER"),
    ("STEP-141", "SELECT user FROM stream FOR UPDATE", "locks", "remove"),
    ("STEP-141", "SELECT user INTO a FROM stream", "INTO", "sink"),
    ("STEP-141", "SELECT user FROM stream AS s(a, b)", "alias with columns", "SELECT list"),
    ("STEP-141", "SELECT user AS (a, b) FROM stream", "several names", "AS name"),
    ("STEP-141", "SELECT * REPLACE (1 AS x) FROM stream", "REPLACE", "EXCEPT"),
    ("STEP-141", "SELECT DISTINCT ON (user) x FROM stream", "DISTINCT ON", "ROW_NUMBER"),
    ("STEP-141", "SELECT user FROM db.stream", "dots", "names"),
    ("STEP-141", "SELECT at + INTERVAL '1' DAY AS d FROM stream", "INTERVAL", "date_add"),
    ("STEP-141", "SELECT b.x FROM stream FOR SYSTEM_TIME AS OF at AS b", "SYSTEM_TIME", "JOIN versions"),
    ("STEP-146", f"SELECT b.id {VERSIONS.replace('a.at', 'a.x')} ON a.x = b.id", "'x' is not the event time", ".event_time"),
    ("STEP-147", f"SELECT b.id {VERSIONS} ON a.x = b.id AND a.y > b.w", "equal keys only", "WHERE"),
    ("STEP-147", f"SELECT b.id {VERSIONS} ON a.x > b.id", "equal keys only", "WHERE"),
    ("STEP-147", f"SELECT b.id {VERSIONS.replace('JOIN', 'FULL JOIN')} ON a.x = b.id", "full join with versions", "JOIN"),
    ("STEP-147", "SELECT b.id FROM stream a JOIN other VERSION AS OF 1 AS b ON a.x = b.id", "at the event time", ""),
    ("STEP-144", "SELECT a.x FROM stream a JOIN other b ON a.x = b.id WHERE SUM(b.w) > 1", "WHERE", "HAVING"),
    ("STEP-141", "SELECT b.id FROM stream a NATURAL JOIN other b", "JOIN", "ON"),
    ("STEP-142", "SELECT 1 AS a", "reads nothing", "FROM"),
    ("STEP-142", "SELECT user FROM streem", "unknown table 'streem' (line 1, column 18)", "streem="),
    ("STEP-142", "SELECT 1 AS a FROM (stream)", "brackets hold a SELECT", "(SELECT"),
    ("STEP-142", "SELECT COUNT(*) AS n FROM range(10)", "FROM takes", ""),
    ("STEP-142", "SELECT stream.x FROM stream JOIN stream ON stream.x = stream.x", "same name", "AS"),
    ("STEP-142", f"SELECT a.x {BOTH} JOIN other c ON a.x = c.id", "more than two", "step before"),
    ("STEP-143", "SELECT z FROM stream", "unknown column 'z' (line 1, column 8)", "known"),
    ("STEP-143", "SELECT stream.x FROM stream AS s", "unknown column 'stream'", "known"),
    ("STEP-143", "SELECT x + 1 FROM stream", "has no name (line 1, column 8)", "AS name"),
    ("STEP-143", "SELECT x, y AS x FROM stream", "one name", "EXCEPT"),
    ("STEP-143", "SELECT * EXCEPT (zz) FROM stream", "'zz'", "known"),
    ("STEP-143", "SELECT q.* FROM stream", "unknown table 'q'", "known"),
    ("STEP-143", "SELECT concat(stream.*) AS a FROM stream", "*", "name the columns"),
    ("STEP-143", "SELECT window, COUNT(*) AS n FROM stream GROUP BY window(at, '1 second')", "no column", "window.start"),
    ("STEP-143", "SELECT x FROM stream a JOIN stream b ON a.x = b.x", "ambiguous", "table.column"),
    ("STEP-143", "SELECT upper(user) AS user FROM stream GROUP BY stream.user HAVING user = 'A'", "two columns", "another"),
    ("STEP-144", "SELECT user, x FROM stream GROUP BY user", "'x' is neither grouped", "GROUP BY"),
    ("STEP-144", "SELECT * FROM stream GROUP BY user", "*", "name the"),
    ("STEP-144", "SELECT user FROM stream WHERE SUM(x) > 1", "WHERE", "HAVING"),
    ("STEP-144", "SELECT SUM(MAX(x)) AS a FROM stream", "inside another", "FROM (SELECT"),
    ("STEP-144", "SELECT SUM(DISTINCT x) AS a FROM stream", "DISTINCT", "COUNT(DISTINCT x)"),
    ("STEP-144", "SELECT COUNT(user, x) AS a FROM stream", "one argument", "(x)"),
    ("STEP-144", "SELECT FIRST(x) AS a FROM stream", "not null", "IGNORE NULLS"),
    ("STEP-144", "SELECT SUM(x) IGNORE NULLS AS a FROM stream", "IGNORE NULLS", "remove"),
    ("STEP-144", "SELECT COUNT(*) AS n FROM stream GROUP BY SUM(x)", "grouped by", "second statement"),
    ("STEP-144", "SELECT COUNT(*) AS n FROM stream GROUP BY 3", "GROUP BY 3", "number"),
    ("STEP-145", f"SELECT user {TUMBLE}", "without GROUP BY", "window_start"),
    ("STEP-145", f"SELECT COUNT(*) AS n {TUMBLE} GROUP BY window_start", "grouped by its window", "window_end"),
    ("STEP-145", f"SELECT COUNT(*) AS n {TUMBLE} WHERE window_start > at GROUP BY 1", "before the window", "HAVING"),
    ("STEP-145", "SELECT COUNT(*) AS n FROM stream GROUP BY window(at)", "written otherwise", "correct"),
    ("STEP-145", "SELECT COUNT(*) AS n FROM stream GROUP BY window(at, '3 seconds', '2 seconds')", "multiple", "slide"),
    ("STEP-145", "SELECT 1 AS n FROM stream GROUP BY window(at, '1 second'), session_window(at, '1 day')", "two windows", ""),
    ("STEP-145", f"SELECT COUNT(*) AS n {TUMBLE.replace('TUMBLE', 'CUMULATE')} GROUP BY 1", "CUMULATE", ""),
    ("STEP-145", f"SELECT COUNT(*) AS n {TUMBLE.replace('DESCRIPTOR(at)', 'at')} GROUP BY 1", "otherwise", ""),
    ("STEP-145", f"SELECT user {TUMBLE.replace('stream', 'stream PARTITION BY user')}", "PARTITION BY", "GROUP BY"),
    (
        "STEP-145",
        f"SELECT user {TUMBLE.replace('TUMBLE', 'SESSION')} GROUP BY user, window_start, window_end",
        "partitioned",
        "PARTITION BY user",
    ),
    ("STEP-145", f"SELECT a.x {LEFT_WINDOW} JOIN other b ON a.x = b.id", "different windows", "same"),
    (
        "STEP-145",
        f"SELECT a.x {LEFT_WINDOW} JOIN TUMBLE(TABLE other, DESCRIPTOR(ts), INTERVAL '1' SECOND) b ON a.x = b.id",
        "joined by their windows",
        "a.window_start = b.window_start",
    ),
    ("STEP-146", "SELECT COUNT(*) AS n FROM stream GROUP BY window(x, '1 second')", "event time", ".event_time('x')"),
    ("STEP-146", f"SELECT 1 AS n {TUMBLE.replace('(at)', '(x)')} GROUP BY 1", "event time", ".event_time('x')"),
    (
        "STEP-146",
        "SELECT COUNT(*) AS n FROM (SELECT date_trunc('hour', at) AS at FROM stream) GROUP BY window(at, '1 second')",
        "event time",
        ".event_time('at')",
    ),
    ("STEP-147", "SELECT a.x FROM stream a JOIN other b ON a.x > b.id", "without an equality", "l.key = r.key"),
    ("STEP-142", f"SELECT b.w {RANKED} a JOIN other b ON a.x = b.id WHERE rn = 1", "or a ranking", "step before"),
    ("STEP-147", f"SELECT a.x {BOTH}".replace("JOIN", "OUTER JOIN"), "OUTER JOIN is not offered", "behind"),
    ("STEP-147", "SELECT a.x FROM stream a CROSS JOIN other b", "without an equality", "l.key = r.key"),
    ("STEP-147", f"SELECT a.x {BOTH}".replace("JOIN", "LEFT JOIN"), "left join without bounds", "BETWEEN"),
    ("STEP-147", f"SELECT a.x {BOTH}".replace("JOIN", "LEFT SEMI JOIN"), "LEFT SEMI JOIN", "behind"),
    ("STEP-147", "SELECT a.x FROM stream a FULL JOIN stream b USING (x)", "USING", "coalesce"),
    ("STEP-148", f"SELECT a.x {BOTH} AND b.ts >= a.at", "only one bound", "BETWEEN"),
    ("STEP-148", f"SELECT a.x {BOTH} AND b.ts > a.at AND b.ts < a.at - INTERVAL '1' DAY", "no time lies", "correct"),
    ("STEP-148", f"SELECT a.x {BOTH} AND b.w < a.x + INTERVAL '1' DAY", "not over event time", ".event_time"),
    ("STEP-149", f"SELECT * {RANKED}", "one condition such as rn <= 3", ""),
    ("STEP-149", f"SELECT * {RANKED} WHERE rn > 3", "one condition", ""),
    ("STEP-149", f"SELECT * {RANKED} WHERE rn <= 0", "one condition", ""),
    ("STEP-149", f"SELECT * {RANKED.replace('ORDER BY x', '')} WHERE rn = 1", "not a ranking", ""),
    ("STEP-149", f"SELECT * {RANKED.replace('BY x', 'BY x NULLS LAST')} WHERE rn = 1", "nulls", "smallest"),
    ("STEP-149", f"SELECT * {RANKED.replace('ROW_NUMBER', 'NTILE')} WHERE rn = 1", "rankings only", "ROW_NUMBER"),
    ("STEP-149", f"SELECT * {RANKED.replace('stream)', 'stream GROUP BY x)')} WHERE rn = 1", "not a ranking", ""),
    ("STEP-151", "SELECT COUNT(*) AS n FROM stream GROUP BY window(at, '1 month')", "not an interval", "fixed length"),
    ("STEP-151", f"{GROUPED} window(at, '999999999 days')", "longer than 1000 years", "shorter"),
    ("STEP-151", f"{GROUPED} window(at, '{'9' * 400} days')", "longer than 1000 years", "shorter"),
    ("STEP-151", "SELECT COUNT(*) AS n FROM stream GROUP BY window(at, '1.5 milliseconds')", "milliseconds", "round"),
    ("STEP-152", "SELECT MAX(n) AS m FROM (SELECT user, COUNT(*) AS n FROM stream GROUP BY 1)", "aggregate over", "emit="),
    ("STEP-152", "SELECT DISTINCT n FROM (SELECT user, COUNT(*) AS n FROM stream GROUP BY 1)", "DISTINCT", "emit="),
    (
        "STEP-152",
        "SELECT o.id FROM (SELECT user, COUNT(*) AS n FROM stream GROUP BY 1) c JOIN other o ON c.n = o.id",
        "join over",
        "emit=",
    ),
    ("EXPR-006", "SELECT now() AS a FROM stream", "'now'", "epoch"),
    ("EXPR-006", "SELECT current_timestamp AS a FROM stream", "'current_timestamp'", "epoch"),
    ("EXPR-006", "SELECT COUNT(*) AS n FROM stream GROUP BY rand()", "'rand'", "epoch"),
    ("EXPR-004", "SELECT stddev(x) AS a FROM stream", "'stddev'", "known function"),
    ("EXPR-010", "SELECT user FROM stream WHERE x", "boolean", "compare"),
    ("STEP-041", "SELECT DISTINCT tags FROM stream", "cannot be a key", "field"),
    ("STEP-045", "SELECT user FROM stream UNION ALL SELECT x FROM stream", "different schemas", "same columns"),
    ("EXPR-007", "SELECT a.x FROM stream a JOIN other b ON a.user = b.id", "no common type", "CAST"),
    ("EXPR-007", "SELECT a.x FROM stream a JOIN other b ON a.at = b.id", "no common type", "CAST"),
    ("STEP-085", f"SELECT * {RANKED.replace('ROW_NUMBER', 'RANK')} WHERE rn = 1", "ties", "emit='end'"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "says", "hints"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_a_statement_is_refused_where_it_is_written(code, text, says, hints):
    job, stream, other = streams()
    before = job.model
    with pytest.raises(MillstreamError) as caught:
        if "other" in text:
            job.sql(text, stream=stream, other=other, id="q")
        else:
            stream.sql(text, id="q")
    error = caught.value
    assert error.code == code
    assert says in error.message
    assert hints in (error.hint or "")
    assert (error.step or "").startswith("q") or code in {"STEP-041", "STEP-085"}
    assert job.model == before, "a statement that is refused leaves no steps behind"


PLAIN = "SELECT user FROM stream"
COUNTED = "SELECT COUNT(*) AS n FROM stream"
WINDOWED = "SELECT COUNT(*) AS n FROM stream GROUP BY window(at, '1 second')"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (PLAIN, {"emit": "end"}, "STEP-150"),
        (PLAIN, {"allowed_lateness": "1s"}, "STEP-150"),
        (PLAIN, {"uid": "u"}, "STEP-150"),
        (WINDOWED, {"emit": "end"}, "STEP-150"),
        (COUNTED, {"allowed_lateness": "1s"}, "STEP-150"),
        (COUNTED, {"emit": "never"}, "STEP-070"),
        ("SELECT DISTINCT user FROM stream", {"emit": "row"}, "STEP-070"),
        (WINDOWED, {"allowed_lateness": "soon"}, "STEP-004"),
    ],
)
def test_an_option_without_effect_is_refused(text, options, code):
    job, stream, _ = streams()
    before = job.model
    with pytest.raises(MillstreamError) as caught:
        stream.sql(text, **options)
    assert caught.value.code == code
    assert job.model == before


def test_streams_must_be_of_the_job_and_be_read():
    job, stream, other = streams()
    for given in ({}, {"stream": "text"}, {"stream": streams()[1]}, {"stream": stream.key_by("user")}):
        with pytest.raises(MillstreamError) as caught:
            job.sql(PLAIN, **given)
        assert caught.value.code == "STEP-142"
    with pytest.raises(MillstreamError, match="does not read 'other'"):
        job.sql(PLAIN, stream=stream, other=other)


def test_windows_need_event_time():
    stream = ms.Job("untimed").source("in", ms.memory([]), schema="at timestamp")
    with pytest.raises(MillstreamError, match=r"call .event_time\('at'\)") as caught:
        stream.sql(WINDOWED)
    assert caught.value.code == "STEP-146"


def test_a_corrected_statement_may_have_the_same_id():
    _, stream, _ = streams()
    with pytest.raises(MillstreamError):
        stream.sql("SELECT user FROM stream WHERE x > 0 GROUP BY 1 HAVING y > 0", id="q")
    assert stream.sql("SELECT user FROM stream WHERE x > 0 GROUP BY 1", id="q").step == "q.select"
