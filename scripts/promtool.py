"""Gets `promtool`, which checks and tries alert rules, from the distribution's package of Prometheus.

`python scripts/promtool.py install` fetches it into the virtual environment, `path` says where it is. The package is unpacked,
not installed: no service starts. It needs `apt-get` and `dpkg-deb`, as Debian and Ubuntu have them, and no root.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "prometheus"


def program() -> Path:
    """Where it is: in the virtual environment or on the path; where it would be, if it is nowhere."""
    fetched = Path(sys.prefix) / "servers" / "promtool" / "promtool"
    found = None if fetched.exists() else shutil.which("promtool")
    return fetched if found is None else Path(found)


def install() -> Path:
    """Fetch it, unless it is there."""
    target = program()
    if target.exists():
        return target
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        msg = f"promtool cannot be fetched without {' and '.join(missing)}: put it on the path"
        raise SystemExit(msg)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        subprocess.run(
            ["apt-get", "download", "-qq", PACKAGE], cwd=folder, check=True, stderr=subprocess.DEVNULL, timeout=300
        )
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")], check=True, timeout=300)
        # Whoever installs at the same time was as careful.
        (folder / "unpacked" / "usr" / "bin" / "promtool").replace(target)
    return target


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["install", "path"])
    action = parser.parse_args().action
    sys.stdout.write(f"{install() if action == 'install' else program()}\n")


if __name__ == "__main__":
    main()
