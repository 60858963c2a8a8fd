"""The documents that the commands of training print (training.py, step.py, trained.py), and the statement of a run (run_statement.py)."""
