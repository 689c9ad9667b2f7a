"""From a url to its store. Drivers are imported with the first url that needs them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from millstream.checkpoint.stores.base import ManifestStore
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.read_only import ReadOnlyStore
from millstream.errors import InvalidPlan
from millstream.model.secret import url_with_secrets
from millstream.redaction import shown_url

_SLIP = re.compile(r"(?:file|s3|sqlite|postgres|postgresql)(?::/?|//)", re.IGNORECASE)
KNOWN = ("a path", "file:///path", "s3://bucket/prefix", "sqlite:///file.db", "postgresql://user@host/database")


def open_store(url: str | Path) -> ManifestStore:
    """The store of a url or path; makes what is missing of it. The url may name secrets.

    Raises:
        InvalidPlan: (PLAN-034) an unknown scheme, or a url that names no store.
        ExternalFailure: (CKPT-032) a service that does not answer.
    """
    if isinstance(url, Path) or "://" not in url:
        return LocalStore(_path(url))
    url = url_with_secrets(url)
    match _scheme(url):
        case "file":
            return LocalStore(_file_path(url))
        case "s3":
            from millstream.checkpoint.stores.s3 import S3Store

            return S3Store(url)
        case "sqlite":
            from millstream.checkpoint.stores.sqlite import open_sqlite

            return open_sqlite(url)
        case "postgresql" | "postgres":
            from millstream.checkpoint.stores.postgres import open_postgres

            return open_postgres(url)
        case scheme:
            msg = "a store of an unknown kind"
            raise InvalidPlan(msg, code="PLAN-034", found=f"{scheme}://", known=KNOWN, hint="use a known scheme")


def open_for_reading(url: str | Path) -> ReadOnlyStore:
    """The store of a url or path that exists; nothing is made or changed, not even by opening it.

    Raises:
        CheckpointRefused: (CKPT-016) there is no such store.
    """
    if isinstance(url, Path) or "://" not in url:
        return ReadOnlyStore(LocalStore(_path(url)))
    url = url_with_secrets(url)
    match _scheme(url):
        case "sqlite":
            from millstream.checkpoint.stores.sqlite import open_sqlite_copy

            return ReadOnlyStore(open_sqlite_copy(url))
        case "postgresql" | "postgres":
            from millstream.checkpoint.stores.postgres import open_postgres_reader

            return ReadOnlyStore(open_postgres_reader(url))
        case _:
            return ReadOnlyStore(open_store(url))


def _path(path: str | Path) -> str | Path:
    """A path, unless it is a url with a slip in it: a folder of that name would hold the manifests, and show the password."""
    if isinstance(path, str) and _SLIP.match(path):
        msg = "a url without `://`"
        raise InvalidPlan(msg, code="PLAN-034", found=shown_url(path), known=KNOWN, hint="write the scheme in full")
    return path


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _file_path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or parts.path in {"", "/"}:
        msg = "the url of the store names no directory of this machine"
        raise InvalidPlan(msg, code="PLAN-034", found=url, known="file:///path", hint="name a directory")
    return Path(unquote(parts.path))
