"""Operators as functions of arrays: a table a framework, and what all share."""
