"""Families of mechanisms, one in each file. A `...Spec` has the keys of the pipeline file, and a `Mechanism` has the privacy loss."""
