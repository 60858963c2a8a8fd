"""The command line: Click lives here and nowhere else. One command per file: parse, call one function, render."""
