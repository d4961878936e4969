"""Whether a runtime computes what it should, in check as beside every time: parity, contracts, audits, bisection."""
