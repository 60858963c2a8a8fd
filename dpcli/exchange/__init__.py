"""Import of the records that other libraries keep of private runs, and export of pipelines to their formats.

commands/ has the commands import and export, foreign.py what all conversions share, and each other file or folder one format.
"""
