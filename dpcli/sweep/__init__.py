"""Sweeps, which compare accuracy with epsilon. A sweep makes many training runs of one file, or a private search among settings."""
