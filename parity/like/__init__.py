"""Which node of a quantised file loses what, compared with the network that the file was made of."""
