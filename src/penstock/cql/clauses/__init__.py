"""The clauses of a query, bound to logical operators."""
