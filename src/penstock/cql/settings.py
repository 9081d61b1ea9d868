"""Tunables of the language: how deep a query may nest, how a misspelt keyword is recognized."""

MAX_NESTING = 100
"""Levels that a query may nest: parentheses, functions, operators other than a chain of AND or OR.
Evaluating and pickling take up to seven frames of the interpreter's usual 1,000 for each."""
MAX_VIEWS = 50
"""Views over views: their plans are one below the other."""
MAX_SOURCES = 400
"""Streams, relations and tables that a query may read, each as often as it stands there: views over views
that use one twice double them. Planning goes through all of them, and takes seconds for so many."""
MAX_OPERATORS_DEEP = 200
"""Operators below each other, as of a chain of WITH: planning takes four of 1,000 frames for each."""
PARSER_RECURSION_LIMIT = 50_000
"""Frames that the parser and binder may use: about 30 for each level, one for each term of a chain."""

TYPO_TOKENS_BEFORE = 2
"""Tokens before the place of a syntax error that may be misspelt."""
TYPO_TOKENS_AFTER = 1
"""Tokens after it that may be misspelt."""
TYPO_PARSED_TOKENS = 2
"""Tokens after the place that must parse with the suggested keyword."""
TYPO_SIMILARITY = 0.7
"""Least similarity of a word and the suggested keyword, from 0 to 1."""
FUNCTION_SIMILARITY = 0.7
"""The same of functions, of which there are so many that some are like any word."""
AUTO_DISORDER = "10 MINUTES"
"""The largest bound of DISORDER AUTO without UP TO: results wait no longer than that."""
MOST_ROWS = 1 << 61
"""The largest number in LIMIT and OFFSET: their sum is a 64-bit integer."""
MOST_GROUPING_SETS = 64
"""Sets of keys that one GROUP BY may have: every row is grouped once for each of them."""
