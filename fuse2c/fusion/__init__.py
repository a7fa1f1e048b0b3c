"""Fusion: the words (dsl), the folds that compute new constants (folds, quantise), the fusions (rules)."""
