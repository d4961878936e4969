"""Which runtime to deploy: what is asked of a store, who is the best and how surely, and the folder that runs it."""
