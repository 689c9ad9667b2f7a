"""The command that starts the JVM: what Spark's launcher would run, without the launcher."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from millstream.spark.start.choice import pyspark_home

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_WIDE_FROM = 31 << 30
MAIN = "org.apache.spark.api.python.PythonGatewayServer"
_SPARK = Path(__file__).parent.parent
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
LAUNCHERS_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's launcher gives to every JVM, but for a module of vectors that only MLlib uses."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JvmSettings:
    """What cannot be changed once the JVM runs."""

    memory: str
    options: tuple[str, ...]
    java: str

    @property
    def has_wide_references(self) -> bool:
        """Whether the heap is too large for short references: classes are laid out otherwise then."""
        size = re.fullmatch(r"(\d+)([kmgt]?)", self.memory, re.IGNORECASE)
        return size is not None and int(size[1]) * _UNITS[size[2].lower()] >= _WIDE_FROM

    def command(self, class_path: tuple[Path, ...], extra: tuple[str, ...] = ()) -> list[str]:
        """The whole command line."""
        joined = os.pathsep.join(map(str, class_path))
        own = [f"-Xmx{self.memory}", *self.options, *extra]
        return [self.java, *own, *LAUNCHERS_OPTIONS, "-cp", joined, MAIN]


def settings_of(confs: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> JvmSettings:
    """The settings of a JVM; `confs` are all of Spark's, ours and the user's."""
    options = tuple(shlex.split(confs.get("spark.driver.extraJavaOptions", "")))
    return JvmSettings(memory=confs.get("spark.driver.memory", "1g"), options=options, java=_java(environ))


def java_options(*, quiet: bool) -> list[str]:
    """Options of the JVM; a user's own `spark.driver.extraJavaOptions` replaces them."""
    options = [
        # A long error message in a callback overflows the default stack.
        "-Xss16m",
        # The JVM schedules and moves bytes; rows are handled by Arrow in the workers and state by RocksDB. Its optimising
        # compiler takes more time than the code it makes gives back, even after twenty epochs.
        "-XX:TieredStopAtLevel=1",
    ]
    if quiet:
        options.append(f"-Dlog4j2.configurationFile={(_SPARK / 'log4j2.properties').as_uri()}")
    return options


@cache
def spark_jars() -> tuple[Path, ...]:
    """All jars of Spark, those that our queries use first: a class is looked for in one jar after the other."""
    first = {name: rank for rank, name in enumerate((Path(__file__).parent / "first_jars.txt").read_text().split())}
    jars = sorted((pyspark_home() / "jars").glob("*.jar"))
    return tuple(sorted(jars, key=lambda jar: (first.get(_artifact(jar), len(first)), jar.name)))


def _artifact(jar: Path) -> str:
    """`spark-core_2.13-4.3.0.jar` is `spark-core`."""
    words = jar.stem.split("-")
    version = next((at for at, word in enumerate(words) if at and word[:1].isdigit()), len(words))
    return "-".join(words[:version]).split("_2.")[0]


def _java(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
