"""The lint rules, grouped in files by theme. catalogue.py lists them by code. No module of this folder imports numpy."""
