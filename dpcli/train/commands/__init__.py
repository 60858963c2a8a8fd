"""The commands train, predict, evaluate and attest."""
