"""The lint rules, grouped in files by theme; catalogue.py lists them by code. Nothing here imports numpy."""
