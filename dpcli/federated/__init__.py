"""Federated learning: the table [federated], which describes a server and its clients, and rounds that are charged one by one.

A server trains a model with many clients. In a *round* some clients compute an *update* from their own data, and the server uses only a
noisy sum of the clipped updates. The unit of privacy is a client, or a user with several clients.

federated_settings.py defines the table, and round_checks.py refuses a file that costs less than its rounds. federated_plan.py counts what
is to be paid, and rounds.py charges it in a ledger, under the keys of run_charges.py. round.py adds the noise of a round. participations.py
counts how often a client takes part.
"""
