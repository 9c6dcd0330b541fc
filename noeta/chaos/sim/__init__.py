"""The simulator: the same worker code in one thread, under a seeded scheduler and virtual time.

Import the part you want (`scheduler`, `world`, `run`, `exhaustive`); nothing of it is meant for production.
"""
