"""Checks of the machine on which dpcli runs."""
