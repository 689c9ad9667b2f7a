"""Servers that only the distribution's packages bring: RabbitMQ and MariaDB, for `make test-brokers`.

`python scripts/brokers.py install` asks the package manager for what is missing, and says loudly what it cannot have.
"""

import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ("rabbitmq-server", "mariadb-server-core", "mariadb-client-core")
_SECONDS = 600


def rabbitmq_program() -> Path | None:
    """The server's own script; the wrapper in the path wants another user than root."""
    found = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    return found if found.exists() else None


def mariadb_program() -> Path | None:
    """The database server."""
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/libexec")
    return None if found is None else Path(found)


def missing() -> list[str]:
    """Servers that are not there."""
    programs = {"RabbitMQ": rabbitmq_program(), "MariaDB": mariadb_program()}
    return [name for name, program in programs.items() if program is None]


def install() -> int:
    """Install what is missing; how many servers are missing then."""
    if missing() and shutil.which("apt-get") is not None:
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            sys.stderr.write(done.stderr[-2000:])
    for name in missing():
        sys.stderr.write(f"NO {name.upper()} TO BE HAD: its tests are skipped; install {' '.join(PACKAGES)}\n")
    return len(missing())


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python scripts/brokers.py install")
    install()
