"""Code that runtimes use besides their own file: the base of those that run graphs, a process of another Python, and
parts for one framework alone."""
