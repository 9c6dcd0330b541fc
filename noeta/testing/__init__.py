"""Test tools that are shipped: what a host or another store needs to test itself as noeta tests itself.

Import the part you want (`noeta.testing.postgres`, ...); this package imports none of them, because each
may need something a plain installation does not have.
"""
