"""Commands on the quality of answers: metrics on the user's data."""
