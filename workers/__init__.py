"""Worker processes, which run what is measured: how they are started, called and ended, and their jobs."""
