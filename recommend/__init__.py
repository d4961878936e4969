"""Which runtime to deploy: the question to a store, the best cell and how sure that is, and the folder that runs it."""
