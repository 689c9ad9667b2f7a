"""Input of each mode behind its real connector; it grows and changes between runs."""

import contextlib

from tests.servers.http import serving
from tests.unit.runs.inputs import FilesInput, Input, QueryInput


class FolderInput(FilesInput):
    """Files."""

    @property
    def address(self):
        return str(self.root)


class ApiInput(Input):
    """An API that shows what comes behind an id, two records a page."""

    mode = "BATCH_ROLLER"

    def __init__(self, root, server):
        server.answer = self._answer
        self.address = server.url
        super().__init__(root)

    def _answer(self, asked):
        after = int(asked.query.get("since_id", 0))
        return {"items": [row for row in self.all if row["id"] > after][:2]}

    def write(self, rows):
        pass

    def rewrite(self, numbers):
        pass


class TableInput(QueryInput):
    """A table of SQLite."""

    @property
    def address(self):
        return str(self.root / "items.db")


@contextlib.contextmanager
def real_input(mode, root):
    """The input of a mode, with a server where it needs one."""
    if mode != "BATCH_ROLLER":
        yield {"STREAMING": FolderInput, "SQL_TASK": TableInput}[mode](root)
        return
    with serving(lambda asked: {"items": []}) as server:
        yield ApiInput(root, server)
