"""Which name means what: scopes, the context of a query, names of result columns."""
