"""The laws, one per file; ``invariants.catalogue.LAWS`` is the list."""
