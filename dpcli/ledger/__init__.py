"""The ledger of a dataset: its charged runs in a hash chain, whose costs a privacy filter adds up."""
