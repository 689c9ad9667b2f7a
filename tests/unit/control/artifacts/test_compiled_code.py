"""Code that a server unpacked to compile it goes when its artifact is gone."""

import time

from millstream.control.artifacts.folders import CodeFolders
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.plane import ControlPlane


def test_what_was_compiled_goes_with_its_artifact(metadata, tmp_path):
    folder = tmp_path / "unpacked" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / "orders.py").touch()
    plane = ControlPlane(
        metadata, None, compiled=CodeFolders(ArtifactStore(tmp_path / "artifacts"), tmp_path / "unpacked")
    )
    plane.start()
    end = time.monotonic() + 20
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    plane.stop()
    assert not folder.exists()
