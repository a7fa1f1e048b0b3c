"""Folds and fusions: what becomes of which pattern, and why not."""
