"""The lint rules, grouped in files by theme. catalogue.py lists them by code. To start fast, no module of this folder imports numpy."""
