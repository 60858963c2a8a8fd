"""The pipeline file, which states what is protected and which mechanisms run how often on which samples.

read.py reads a file, model.py has the classes that it becomes, and resolve.py turns a pipeline into the mechanisms that accountants
compose.
"""
