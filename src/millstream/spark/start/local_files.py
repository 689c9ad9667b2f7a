"""Files on this machine without a process for each of them.

Hadoop sets the permissions of a file it has made by starting `chmod`, unless its native library is there; PySpark comes without
it. An epoch writes a dozen small files: log entries, state, and a checksum for each. The file system below asks the operating
system itself. It is compiled by the compiler that Spark brings for its own generated code.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Goes through the file system that everyone shares; Spark's own choice makes one for itself."""
LOCAL_FILES = "millstream.LocalFiles"
"""Our file system, as `fs.file.impl`."""
_SOURCE = """
package millstream;

import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws java.io.IOException {
            String letters = new FsPermission((short) (permission.toShort() & 0777)).toString();
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
        }
    }
}
"""


def use_local_files(session: SparkSession) -> None:
    """Put our file system where the JVM looks for that of local files."""
    jvm: Any = session.sparkContext._jvm
    compiler = _compiled(jvm)
    settings = jvm.org.apache.hadoop.conf.Configuration(session.sparkContext._jsc.hadoopConfiguration())
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", LOCAL_FILES)
    where = jvm.java.net.URI.create("file:///")
    # One is kept for all: closing it makes room for ours.
    jvm.org.apache.hadoop.fs.FileSystem.get(where, settings).close()
    jvm.org.apache.hadoop.fs.FileSystem.get(where, settings)


def compiled_classes(jvm: Any) -> dict[str, bytes]:
    """The classes by name, for a jar."""
    return {str(name): bytes(content) for name, content in dict(_compiled(jvm).getBytecodes()).items()}


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    return compiler
