"""What a series of times says: its level and spread, ratios with their intervals, ceilings. Pure NumPy."""
