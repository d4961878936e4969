"""What is done to a graph, or read off it."""
