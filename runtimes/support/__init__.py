"""What runtimes are made of besides their own file: the base of those that run graphs, a process of another Python, and
what one framework alone needs."""
