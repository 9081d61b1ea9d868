"""Answers inside a budget: how what is short is shared out, and what is kept."""
