"""Which nodes must stay in float32 so that the answers are still good enough: a search within a number of trials."""
