"""The truth behind a noisy answer: intervals, errors before any data are seen, and what may be done to an answer afterwards."""
