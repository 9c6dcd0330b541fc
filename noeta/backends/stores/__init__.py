"""The stores: one contract, several databases."""
