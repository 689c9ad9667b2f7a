"""Commands given paths that do not exist, or are something else: an error with a code and a fix, nothing made, nothing shown."""

import json

import pytest

CHECKPOINT_COMMANDS = [
    ("doctor", "PATH"),
    ("doctor", "PATH", "--repair"),
    ("drain", "PATH"),
    ("suspend", "PATH"),
    ("cancel", "PATH"),
    ("savepoint", "create", "PATH"),
    ("state", "ls", "PATH"),
    ("state", "get", "PATH", "n"),
    ("state", "diff", "PATH", "PATH"),
]
SAVEPOINT_COMMANDS = [
    ("savepoint", "inspect", "PATH"),
    ("savepoint", "verify", "PATH"),
    ("savepoint", "diff", "PATH", "PATH"),
    ("savepoint", "dispose", "PATH"),
]
JOB_COMMANDS = [("plan", "PATH"), ("validate", "PATH"), ("run", "PATH", "--local")]
KINDS = ("nothing", "file", "folder", "file inside")


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    """A path that is no checkpoint, and what is there instead."""
    made = tmp_path / "given"
    match request.param:
        case "file":
            made.write_text("text")
        case "folder":
            made.mkdir()
            (made / "notes.txt").write_text("text")
        case "file inside":
            made.mkdir()
            (made / "millstream").write_text("text")
            (made / "savepoint.json").mkdir()
    return made


def tried(cli, command, path):
    """Run a command; it must fail with an error of ours that says what to do, and make nothing."""
    before = sorted(str(each) for each in path.parent.rglob("*"))
    result = cli(*(str(path) if part == "PATH" else part for part in command))
    assert result.exit_code not in (0, None), result.stdout
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.stderr
    assert sorted(str(each) for each in path.parent.rglob("*")) == before
    return result


def has_fix(result, *codes):
    assert any(code in result.stderr for code in codes), result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", CHECKPOINT_COMMANDS, ids=" ".join)
def test_a_path_without_a_checkpoint(cli, path, command):
    codes = ("CKPT-016", "SAVE-001", "SAVE-003") if command[0] == "state" else ("CKPT-016",)
    has_fix(tried(cli, command, path), *codes)


@pytest.mark.parametrize("command", SAVEPOINT_COMMANDS, ids=" ".join)
def test_a_path_without_a_savepoint(cli, path, command):
    has_fix(tried(cli, command, path), "SAVE-001", "SAVE-003")


@pytest.mark.parametrize("command", JOB_COMMANDS, ids=" ".join)
def test_a_path_without_a_job(cli, tmp_path, command):
    tried(cli, command, tmp_path / "no_such.py")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_listing_savepoints_of_a_folder_that_is_not_there(cli, tmp_path, options):
    result = tried(cli, ("savepoint", "list", "PATH", *options), tmp_path / "no" / "such")
    has_fix(result, "SAVE-021")
    assert "--checkpoint" in result.stderr, "it says what to give"
    (tmp_path / "file").write_text("text")
    has_fix(tried(cli, ("savepoint", "list", "PATH", *options), tmp_path / "file"), "SAVE-021")


def test_a_folder_without_savepoints_is_empty_and_no_error(cli, tmp_path):
    result = cli("savepoint", "list", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert cli("savepoint", "list", tmp_path, "--json").stdout == ""


@pytest.mark.parametrize("url", ["sqlite:///FOLDER/no.db", "file:///FOLDER/no", "FOLDER/no"])
@pytest.mark.parametrize("command", CHECKPOINT_COMMANDS, ids=" ".join)
def test_a_store_that_is_not_there(cli, tmp_path, command, url):
    (tmp_path / "given").mkdir()
    manifests = url.replace("/FOLDER", str(tmp_path)).replace("FOLDER", str(tmp_path))
    has_fix(tried(cli, (*command, "--manifests", manifests), tmp_path / "given"), "CKPT-016")


def test_a_database_without_our_table(cli, tmp_path, postgres):
    (tmp_path / "given").mkdir()
    postgres.execute("DROP TABLE IF EXISTS millstream_objects")
    for command in (("doctor", "PATH"), ("state", "ls", "PATH")):
        has_fix(tried(cli, (*command, "--manifests", postgres.url), tmp_path / "given"), "CKPT-016")
    assert postgres.execute("SELECT to_regclass('millstream_objects')") == [(None,)]


@pytest.mark.parametrize("path", ["no/such", "file"])
def test_a_restore_from_nowhere(cli, job_file, tmp_path, path):
    (tmp_path / "file").write_text("text")
    command = ("run", job_file, "--local", "--checkpoint", tmp_path / "c", "--from-savepoint", tmp_path / path)
    result = cli(*command, "-o", "json")
    assert result.exit_code != 0
    assert "SAVE-001" in result.stderr or json.loads(result.stdout)["code"] == "SAVE-001"
