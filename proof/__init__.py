"""Checks that a runtime computes what it should, in check and for every time: parity, contracts, audits, bisection."""
