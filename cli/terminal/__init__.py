"""Output of commands, the progress bar, and how commands end early."""
