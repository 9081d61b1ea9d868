"""Tunables of the language: how a misspelt keyword is recognized."""

TYPO_TOKENS_BEFORE = 2
"""Tokens before the place of a syntax error that may be misspelt."""
TYPO_TOKENS_AFTER = 1
"""Tokens after it that may be misspelt."""
TYPO_PARSED_TOKENS = 2
"""Tokens after the place that must parse with the suggested keyword."""
TYPO_SIMILARITY = 0.7
"""Least similarity of a word and the suggested keyword, from 0 to 1."""
