"""Federated learning: what [federated] says of a server and its clients, and rounds that are charged one by one."""
