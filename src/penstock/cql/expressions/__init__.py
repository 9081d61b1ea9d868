"""Scalar and aggregate expressions: types, coercion, functions and the binder."""
