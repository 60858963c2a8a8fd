"""The check that a model and its loss isolate records. It uses abstract execution, comparison of state, and runs on synthetic records."""
