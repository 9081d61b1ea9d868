"""A catalog to bind against: the thesis's streams and one with a column of every type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import FunctionDef
from penstock.cql.names.context import Catalog

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

CREATE RELATION Q (k INT, v STRING, t BIGINT, op STRING) TIMESTAMP BY t CHANGE BY op FROM PARQUET 'q';

-- the thesis's: section 4.1.1, 5 and 6
CREATE STREAM Packets (destAddr STRING, data STRING, T STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'p';
CREATE STREAM S3 (C INT, D INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 's3';
CREATE STREAM SB (B INT, C INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 'sb';
CREATE STREAM CarStr (cid INT, speed INT, xpos INT, sid INT, t BIGINT) TIMESTAMP BY t FROM PARQUET 'cars';

CREATE VIEW counts AS SELECT A, COUNT(*) AS n FROM S [ROWS 4] GROUP BY A;
CREATE STREAM often AS SELECT ISTREAM(A, n) FROM counts WHERE n > 2;
CREATE VIEW positive AS SELECT A, B FROM S WHERE A > 0;
"""


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    known = {name: FunctionDef(name, pa.bool_(), None) for name in ("lookup", "match")}
    known |= {"twice": FunctionDef("Twice", pa.int64(), None)}
    return defined(CATALOG, known)


def defined(text: str, known: Catalog) -> Catalog:
    """A catalog and what a text defines."""
    catalog = dict(known)
    for statement in cql.parse(text):
        if isinstance(statement, cql.CreateView):
            catalog[statement.name] = cql.define_view(statement, catalog)
        elif isinstance(statement, cql.CreateInput | cql.CreateTable):
            catalog[statement.name] = statement.definition()
    return catalog
