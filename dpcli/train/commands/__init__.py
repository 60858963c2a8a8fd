"""The commands train (train.py) and predict, evaluate and attest (trained.py)."""
