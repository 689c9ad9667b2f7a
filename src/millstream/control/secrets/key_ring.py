"""The file of keys with which secrets are encrypted: the newest encrypts, all of them decrypt."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from millstream.errors import Domain, MillstreamError

FORMAT = 1
KEY_BYTES = 32
_MOST_BYTES = 1 << 20
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretRefused(MillstreamError, RuntimeError):
    """A secret that cannot be read or kept safely: its key is missing or open to others, or what is stored was changed."""

    code = "CTL-300"
    domain: Domain = "user"


class EncryptionKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key as it stands in the file."""

    id: str
    key: str
    """Base64."""

    def __repr__(self) -> str:
        return f"EncryptionKey(id={self.id!r})"

    @property
    def material(self) -> bytes:
        """The key itself."""
        return base64.b64decode(self.key, validate=True)


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    keys: tuple[EncryptionKey, ...]

    def __repr__(self) -> str:
        return f"_KeyFile({len(self.keys)} keys)"


class KeyRing:
    """Keys of a file that its owner alone may read; it is made when the first secret is stored.

    Another process may add a key at any time: the file is read again when it has changed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[EncryptionKey, ...] = ()

    @property
    def newest(self) -> EncryptionKey:
        """The key that encrypts."""
        self._ensure()
        return self._read()[-1]

    @property
    def ids(self) -> list[str]:
        """Which keys there are, the newest last."""
        return [key.id for key in self._read()]

    def key(self, key_id: str) -> EncryptionKey:
        """The key that something was encrypted with.

        Raises:
            SecretRefused: (CTL-302) it is not in the file.
        """
        known = self._read() if self.path.exists() else ()
        found = next((key for key in known if key.id == key_id), None)
        if found is not None:
            return found
        msg = f"the key that the secret was encrypted with is not in {str(self.path)!r}"
        hint = "restore the key file from its backup, or set the secret again"
        raise SecretRefused(msg, code="CTL-302", found=key_id, known=[key.id for key in known], hint=hint)

    def derived(self, purpose: str) -> bytes:
        """A key for something else than encrypting: the same in all processes that share the file, whatever keys are added."""
        self._ensure()
        oldest = self._read()[0]
        return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=f"millstream {purpose}".encode()).derive(
            oldest.material
        )

    def add(self) -> EncryptionKey:
        """Make a new key, which encrypts from now on; the others stay for what is encrypted with them."""
        with self._locked():
            earlier = self._read() if self.path.exists() else ()
            made = _made()
            self._write((*earlier, made))
        return made

    def _read(self) -> tuple[EncryptionKey, ...]:
        with self._opened() as handle:
            now = os.fstat(handle)
            _refuse_open(self.path, now)
            seen = (now.st_ino, now.st_mtime_ns, now.st_size)
            if seen != self._seen:
                self._keys = _decoded(self.path, os.read(handle, _MOST_BYTES))
                self._seen = seen
        return self._keys

    def _ensure(self) -> None:
        if not self.path.exists():
            with self._locked():
                if not self.path.exists():
                    self._write((_made(),))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as problem:
            msg = "the key file cannot be read"
            hint = "give it to the user that runs the service: chmod 600, and chown"
            raise SecretRefused(msg, code="CTL-301", found=f"{self.path}: {problem.strerror}", hint=hint) from None
        try:
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time makes keys: of two that read and wrote at once, one key would be lost."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, keys: tuple[EncryptionKey, ...]) -> None:
        """Durable before it is used: what is encrypted with a lost key is lost."""
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_KeyFile(FORMAT, keys))) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _made() -> EncryptionKey:
    material = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    return EncryptionKey(id=f"k{secrets.token_hex(8)}", key=material)


def _refuse_open(path: Path, found: os.stat_result) -> None:
    """Keys that others may read protect nothing, and who else owns the file may open it to them."""
    if not stat.S_ISREG(found.st_mode) or found.st_mode & _OPEN_TO_OTHERS or found.st_uid not in {os.geteuid(), 0}:
        msg = "the key file is not for its owner alone"
        shown = f"{path}: {stat.filemode(found.st_mode)}, owner {found.st_uid}"
        known = f"-rw-------, owner {os.geteuid()}"
        hint = "chmod 600 it; if others may have read it, add a new key with `millstream secret rekey`"
        raise SecretRefused(msg, code="CTL-300", found=shown, known=known, hint=hint)


def _decoded(path: Path, content: bytes) -> tuple[EncryptionKey, ...]:
    try:
        file = msgspec.json.decode(content, type=_KeyFile)
        is_whole = all(len(key.material) == KEY_BYTES for key in file.keys)
    except (msgspec.DecodeError, binascii.Error, UnicodeDecodeError):
        is_whole = False
    if not is_whole or file.format != FORMAT or not file.keys or len({key.id for key in file.keys}) < len(file.keys):
        msg = f"the key file {str(path)!r} is damaged, or of another format"
        raise SecretRefused(msg, code="CTL-301", known=f"format {FORMAT}", hint="restore it from its backup")
    return file.keys
