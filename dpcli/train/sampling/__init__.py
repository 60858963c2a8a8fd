"""The samplers of batches, and the sampling of units that own several records."""
