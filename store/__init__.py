"""Records in files: what a record is; how stores are read, written, merged and compared."""
