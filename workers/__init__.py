"""Processes that run what is measured: how they are started, asked and ended, and what they are asked to do."""
