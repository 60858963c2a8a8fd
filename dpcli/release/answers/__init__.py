"""What a noisy answer says of the truth: intervals, errors before any data are seen, and what may be done to an answer afterwards."""
