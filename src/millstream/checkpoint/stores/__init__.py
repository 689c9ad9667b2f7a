"""Where manifests are kept: one file per kind of store, one contract for all."""
