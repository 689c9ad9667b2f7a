"""Small JSON objects under a checksum: format and checksum are verified before anything inside is believed."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

import msgspec

from millstream.errors import CheckpointRefused

T = TypeVar("T")


def seal(content: Any, *, format: int) -> bytes:
    """Canonical JSON with format and checksum."""
    digest = hashlib.sha256(canonical(content)).hexdigest()
    return canonical({"format": format, "checksum": digest, "content": content})


def unseal(data: bytes, *, name: str, format: int) -> Any:
    """The content; a wrong checksum, another format or cut text is refused."""
    try:
        envelope = json.loads(data)
        stored, checksum, content = envelope["format"], envelope["checksum"], envelope["content"]
    except (ValueError, KeyError, TypeError) as problem:
        raise damaged(name, f"not readable ({problem})") from None
    if hashlib.sha256(canonical(content)).hexdigest() != checksum:
        raise damaged(name, "checksum does not match")
    if stored != format:
        msg = f"{name} has another format"
        hint = (
            "use the version that wrote it" if isinstance(stored, int) and stored > format else "take a new savepoint"
        )
        raise CheckpointRefused(msg, code="CKPT-002", found=stored, known=format, hint=hint)
    return content


def unseal_as(kind: type[T], data: bytes, *, name: str, format: int) -> T:
    """The content as a value of a type; content of another shape is refused like a wrong checksum."""
    try:
        return msgspec.convert(unseal(data, name=name, format=format), kind)
    except msgspec.ValidationError as problem:
        raise damaged(name, str(problem)) from None


def canonical(content: Any) -> bytes:
    """One text for equal content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def damaged(name: str, why: str) -> CheckpointRefused:
    """The error for an object that cannot be believed."""
    msg = f"{name} is damaged: {why}"
    hint = "see `millstream doctor CHECKPOINT`; restore the object from a copy, or start from a savepoint"
    return CheckpointRefused(msg, code="CKPT-003", hint=hint)


def digest_of(content: Any) -> str:
    """Hash of a JSON value."""
    return hashlib.sha256(canonical(content)).hexdigest()
