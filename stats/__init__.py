"""Statistics of series of times: level and spread, ratios with their intervals, rooflines. Pure NumPy."""
