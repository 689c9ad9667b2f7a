"""Where the rounds keep head, lease and manifests: beside the state, or in a store of another kind."""

import os
import shutil
import tempfile
from pathlib import Path

from scripts import s3_server
from tests.servers.s3 import S3Server

from millstream.checkpoint.stores.open import open_store

DIRECTORY = "directory"


class ManifestStores:
    """The kinds of stores that can be had here, and the urls of their stores."""

    def __init__(self, opened, *, server, proxy):
        self._server, self._proxy = server, proxy
        self.kinds = [DIRECTORY, "sqlite"]
        if server is not None:
            self.kinds.append("postgres")
        if s3_server.program().exists():
            self._start_s3(opened)
            self.kinds.append("s3")

    def _start_s3(self, opened):
        folder = Path(tempfile.mkdtemp(prefix="ms-chaos-s3-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        server = S3Server(folder)
        opened.callback(server.kill)
        server.start()
        # Clients find the server by these; processes that are started from here inherit them.
        before = {name: os.environ.get(name) for name in server.environment}
        opened.callback(_restore, before)
        os.environ.update(server.environment)
        open_store("s3://chaos/first").create("object", b"")  # which makes the bucket

    def url(self, kind, round_, checkpoint, *, through_proxy):
        """The store of a checkpoint; nothing for one that is kept beside its state."""
        name = f"{round_.config['schema']}-{Path(checkpoint).name}"
        match kind:
            case "sqlite":
                return f"sqlite:///{round_.folder}/manifests.db?store={name}"
            case "postgres":
                port = self._proxy.port if through_proxy else self._server.port
                return f"postgresql://postgres@127.0.0.1:{port}/postgres?store={name}"
            case "s3":
                return f"s3://chaos/{name}"
        return None


def _restore(before):
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
