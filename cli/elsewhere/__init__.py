"""Answers computed elsewhere: `xbench ask` writes the question, `xbench judge` gives the verdict."""
