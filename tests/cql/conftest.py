"""A catalog to bind against: the thesis's streams and one with a column of every type."""

from __future__ import annotations

import pytest

from penstock import cql
from penstock.catalog import StreamDef, TableDef

CATALOG = """
CREATE STREAM C (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'c';
CREATE STREAM B (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'b';
CREATE STREAM O (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'o';

CREATE STREAM S  (A INT, B INT, C INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 's';
CREATE STREAM S1 (A INT, B INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 's1';
CREATE STREAM S2 (A INT, D INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 's2';
CREATE STREAM R1 (A INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 'r1';

-- i, l: INT and BIGINT, f, x: FLOAT and DOUBLE, d: DECIMAL, s: STRING, b: BOOLEAN, day and at: time
CREATE STREAM E (
  i INT, l BIGINT, f FLOAT, x DOUBLE, d DECIMAL(10, 2), s STRING, b BOOLEAN, day DATE, at TIMESTAMP
) TIMESTAMP BY at FROM PARQUET 'e';

CREATE TABLE T (a INT, name STRING) FROM PARQUET 't';
"""


@pytest.fixture(scope="session")
def catalog() -> dict[str, StreamDef | TableDef]:
    statements = cql.parse(CATALOG)
    return {s.name: s.definition() for s in statements if not isinstance(s, cql.Drop | cql.SelectStatement)}
