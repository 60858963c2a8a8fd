"""The samplers of batches (batch_samplers.py), and the sampling of units that own several records (units.py)."""
