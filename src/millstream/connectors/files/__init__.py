"""Files of a directory as a source, and directories of files as a sink."""
