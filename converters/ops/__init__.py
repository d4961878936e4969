"""Operators as functions of arrays: a table per framework, and what all share."""
