"""A store in a bucket of an S3-compatible service: conditional puts decide who wins, nothing is ever renamed."""

from __future__ import annotations

import datetime as dt
import os
import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore import exceptions as problems
from obstore.store import S3Store as Bucket

from millstream.checkpoint.stores.base import checked_name, checked_prefix, folder_of, is_listed
from millstream.checkpoint.stores.remote import RemoteStore, Stored
from millstream.database.retry import Unanswered, attempts
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidPlan, MillstreamError

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import BackoffConfig, ClientConfig

_WRITER = "millstream-writer"
"""User metadata with the id of the write."""
_PROBE = ".conditional-puts"
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_REFUSED = (problems.PermissionDeniedError, problems.UnauthenticatedError, FileNotFoundError)
_REFUSED_STATUS = re.compile(r"status code: 4(?!08|09|29)\d\d")
"""Requests that were understood and refused; 408, 409 and 429 ask to come again."""
_BACKOFF: BackoffConfig = {
    "init_backoff": dt.timedelta(milliseconds=50),
    "max_backoff": dt.timedelta(seconds=1),
    "base": 2,
}
_TRUE = ("1", "true", "yes", "on")


class S3Store(RemoteStore):
    """Objects below `s3://bucket/prefix`; credentials, region and endpoint come from the variables `AWS_*`.

    The service must honour `If-None-Match: *` and `If-Match` on puts; the first write finds out, and refuses one that does not.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        _check_url(url, parts.netloc)
        self._url, self._is_probed = url.rstrip("/"), False
        prefix, options = parts.path.strip("/") or None, _client_options()
        self._bucket = Bucket(
            parts.netloc,
            prefix=prefix,
            client_options=options,
            retry_config={
                "max_retries": 100,
                "retry_timeout": dt.timedelta(seconds=self.patience),
                "backoff": _BACKOFF,
            },
        )
        # A put that is repeated out of sight could hide that its first try was the one that succeeded.
        self._puts = Bucket(parts.netloc, prefix=prefix, client_options=options, retry_config={"max_retries": 0})

    def __repr__(self) -> str:
        return f"S3Store({self._url!r})"

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        folder = folder_of(checked_prefix(prefix))
        try:
            paths = [meta["path"] for page in obstore.list(self._bucket, prefix=folder or None) for meta in page]
        except (problems.BaseError, OSError) as problem:
            raise self._failure(str(problem)) from None
        return sorted(name for name in paths if name.startswith(prefix) and is_listed(name))

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        checked_name(name)
        for _ in attempts(self.patience):
            try:
                obstore.delete(self._bucket, name)
            except FileNotFoundError:
                return
            except (problems.BaseError, OSError) as problem:
                failure = self._unconfirmed(problem)
                if not isinstance(failure, Unanswered):
                    raise failure from None
            else:
                return
        raise self._failure(str(failure))

    def _insert(self, name: str, stored: Stored) -> bool:
        self._probe()
        return self._put(name, stored, "create")

    def _replace(self, name: str, expected: bytes, stored: Stored) -> bool:
        self._probe()
        present = self._get(name)
        if present is None or present[0].content != expected:
            return False
        return self._put(name, stored, {"e_tag": present[1]})

    def _look(self, name: str) -> Stored | None:
        present = self._get(name)
        return None if present is None else present[0]

    def _get(self, name: str) -> tuple[Stored, str | None] | None:
        """An object and its entity tag, from one reply."""
        try:
            reply = obstore.get(self._bucket, name)
            content = bytes(reply.bytes())
        except (problems.BaseError, OSError) as problem:
            if isinstance(problem, FileNotFoundError) and "NoSuchBucket" not in str(problem):
                return None
            raise self._failure(str(problem)) from None
        return Stored(content=content, writer=str(reply.attributes.get(_WRITER, ""))), reply.meta["e_tag"]

    def _put(self, name: str, stored: Stored, mode: PutMode) -> bool:
        attributes = {_WRITER: stored.writer}
        try:
            obstore.put(self._puts, name, stored.content, mode=mode, attributes=attributes, use_multipart=False)
        except (problems.AlreadyExistsError, problems.PreconditionError):
            return False
        except (problems.BaseError, OSError) as problem:
            raise self._unconfirmed(problem) from None
        return True

    def _unconfirmed(self, problem: Exception) -> Exception:
        """What a put means that was neither confirmed nor decided."""
        text = str(problem)
        if isinstance(problem, problems.NotSupportedError) or "status code: 501" in text:
            return self._unconditional()
        if isinstance(problem, _REFUSED) or _REFUSED_STATUS.search(text):
            return self._failure(text)
        return Unanswered(text)

    def _probe(self) -> None:
        """Make sure that the service decides on conditions; one that ignores them would let two owners win."""
        if self._is_probed:
            return
        for _ in attempts(self.patience):
            try:
                self._put(_PROBE, Stored(content=b"", writer=uuid.uuid4().hex), "create")
                again = Stored(content=b"", writer=uuid.uuid4().hex)
                if self._put(_PROBE, again, "create") or self._put(_PROBE, again, {"e_tag": '"0"'}):
                    raise self._unconditional()
            except Unanswered as unanswered:
                problem = str(unanswered)
            else:
                self._is_probed = True
                return
        raise self._failure(problem)

    def _unconditional(self) -> MillstreamError:
        msg = f"the service behind {self._url} does not support conditional puts"
        return CheckpointRefused(
            msg,
            code="CKPT-033",
            known="If-None-Match: * and If-Match on PutObject",
            hint="use a service that supports them, or keep the checkpoint in a directory or a database",
        )

    def _failure(self, why: str) -> ExternalFailure:
        text = why.partition("\n\nDebug source")[0]
        for secret in filter(None, map(os.environ.get, _SECRETS)):
            text = text.replace(secret, "***")
        msg = f"the object store {self._url} failed"
        return ExternalFailure(
            msg,
            code="CKPT-032",
            found=text[:500],
            hint="check the bucket, AWS_ENDPOINT_URL and the credentials; the job resumes from its last epoch",
        )


def _check_url(url: str, bucket: str) -> None:
    if "@" in bucket:
        msg = "credentials do not belong into the url of a store"
        raise InvalidPlan(msg, code="PLAN-034", hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if not bucket:
        msg = "the url of the store names no bucket"
        raise InvalidPlan(msg, code="PLAN-034", found=url, known="s3://bucket/prefix", hint="name the bucket")


def _client_options() -> ClientConfig:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    # Options given here replace those of the environment, so this one is carried over.
    allow_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in _TRUE
    if endpoint.startswith("http://") and not allow_http:
        msg = "the endpoint of the object store is not encrypted"
        raise InvalidPlan(msg, code="PLAN-034", found=endpoint, hint="use https, or set AWS_ALLOW_HTTP=true")
    return {"timeout": "30s", "connect_timeout": "5s", "allow_http": allow_http}
