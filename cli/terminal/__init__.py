"""What commands print, the bar that shows how far they are, and how they end before their time."""
