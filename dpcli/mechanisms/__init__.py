"""Families of mechanisms, one in each file: the keys of the pipeline file (`...Spec`) and the privacy loss they stand for (a
`Mechanism`)."""
