"""Federated learning: the table [federated], which describes a server and its clients, and rounds that are charged one by one."""
