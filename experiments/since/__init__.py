"""`xbench since`: from which release on is a runtime slower, or wrong? A bisection over its releases, each step proved.

search.py (which release next) -> questions.py (slower? wrong?) -> run.py (the report) -> written.py (its files).
"""
