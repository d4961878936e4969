"""How an environment is built: the steps, and the recipe of another version of a runtime."""
