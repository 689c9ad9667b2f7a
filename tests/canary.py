"""A secret that is planted where jobs take one, and a search for it wherever a run leaves something."""

from urllib.parse import urlsplit

SECRET = "canary-5f2e9a"
VARIABLE = "CANARY_PASSWORD"

JOB = """
import millstream as ms

ROWS = [{{"k": "ab"[n % 2], "n": n, "at": n * 1000}} for n in range(40)]
job = ms.Job("canary", rows_per_epoch=10, epoch_interval=0)
rows = job.source("rows", ms.memory(ROWS), schema="k string, n long, at long")
sums = rows.event_time("at").key_by("k").window(ms.tumbling("7s")).aggregate(total=ms.sum("n"), id="sums")
sums.sink("literal", ms.jdbc({literal!r}, table="{table}_literal"))
sums.sink("named", ms.jdbc({named!r}, table="{table}_named"))
sums.sink("variable", ms.jdbc({plain!r}, table="{table}_variable", password_env={variable!r}))
"""


def urls_of(server):
    """The address of a server without a password, with the secret in it, and with its name in it."""
    parts = urlsplit(server.url)
    plain, (user, _, host) = server.url, parts.netloc.partition("@")
    literal = plain.replace(parts.netloc, f"{user}:{SECRET}@{host}")
    named = plain.replace(parts.netloc, f"{user}:${{secret:{VARIABLE}}}@{host}")
    return {"plain": plain, "literal": literal, "named": named}


def write_job(path, server, table):
    path.write_text(JOB.format(**urls_of(server), table=table, variable=VARIABLE))
    return path


def found_in(*texts):
    """The texts that hold the secret."""
    return [text[:300] for text in texts if SECRET in text]


def found_in_files(*folders):
    """The files that hold the secret, wherever they lie."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files, "there is nothing to search"
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


def found_in_tables(server):
    """The rows of the database that hold the secret: manifests, staged rows and markers lie there."""
    tables = server.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    held = [row for (table,) in tables for row in server.execute(f'SELECT CAST(t AS text) FROM "{table}" t')]
    assert held, "there is nothing to search"
    content = [bytes(row[0]).decode() for row in server.execute("SELECT content FROM millstream_objects")]
    return [row for row in held if SECRET in str(row)] + found_in(*content)
