"""Decides: pure functions and frozen data. No clock, no SQL, no threads."""
