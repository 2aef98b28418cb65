"""Mutants of the import and export of Python objects: name, file, text that occurs once, what takes its place, and the
tests in tests/python that must fail."""

MUTANTS = []
