"""Drives: the worker loop, its threads, and the public faces of the store."""
