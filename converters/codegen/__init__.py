"""A graph as text: the program that every framework runs, and a file that runs without xbench."""
