"""Queries and the plans they are bound to: the papers' examples first, then construct by construct."""

from __future__ import annotations

from textwrap import dedent

import pytest

from penstock import cql
from penstock.cql.clauses.from_clause import Catalog
from penstock.plan.logical import Query, ToStream, Window, show
from penstock.schema import TIMESTAMP_TIME, TimeDomain


def check(query: str, plan: str, catalog: Catalog) -> Query:
    bound = cql.bind(query, catalog)
    assert show(bound.root) == dedent(plan).strip("\n")
    return bound


# the thesis


def test_section_1_3_network_monitoring(catalog: Catalog) -> None:
    bound = check(
        """Select sum(C.size)
           From   C [Range 10 minutes], B [Range 10 minutes], O [Range 10 minutes]
           Where  C.pid = B.pid and B.pid = O.pid""",
        """
        Project SUM(C.size) AS sum(size)
          Aggregate SUM(C.size)
            Join C.pid = B.pid AND B.pid = O.pid
              Window C [Range 10 minutes]
              Window B [Range 10 minutes]
              Window O [Range 10 minutes]
        """,
        catalog,
    )
    assert bound.time == TIMESTAMP_TIME
    assert bound.notes == ()
    assert {w.spec.size for w in windows(bound)} == {600_000_000}


EXAMPLE_2_1_1 = """
Istream
  Project S.A AS A, S.B AS B, S.C AS C, S.t AS t
    Select S.A > 10 AND S.B < 20 AND S.C > 40
      Window S {window}
"""


def test_example_2_1_1(catalog: Catalog) -> None:
    bound = check(
        "Select Istream(*) From S [Rows Unbounded] Where S.A > 10 and S.B < 20 and S.C > 40",
        EXAMPLE_2_1_1.format(window="[Rows Unbounded]"),
        catalog,
    )
    assert bound.notes == ()
    assert bound.time == TimeDomain("integer", "seconds")


def test_example_2_1_1_in_short(catalog: Catalog) -> None:
    bound = check(
        "Select * From S Where S.A > 10 and S.B < 20 and S.C > 40",
        EXAMPLE_2_1_1.format(window="[ROWS UNBOUNDED]"),
        catalog,
    )
    assert bound.notes == (
        "S has no window: [ROWS UNBOUNDED] is filled in",
        "the result only grows, so it is streamed: ISTREAM is filled in",
    )


def test_example_2_1_2(catalog: Catalog) -> None:
    query = """Select {} From S1 [Rows 1000], S2 [Range 2 Minutes]
               Where S1.A = S2.A and S1.A > 10 and S1.B < 20"""
    check(
        query.format("*"),
        """
        Project S1.A AS A, S1.B AS B, S1.t AS t, S2.A AS A_1, S2.D AS D, S2.t AS t_1
          Join S1.A = S2.A AND S1.A > 10 AND S1.B < 20
            Window S1 [Rows 1000]
            Window S2 [Range 2 Minutes]
        """,
        catalog,
    )
    check(
        query.format("Istream(S1.A)"),
        """
        Istream
          Project S1.A AS A
            Join S1.A = S2.A AND S1.A > 10 AND S1.B < 20
              Window S1 [Rows 1000]
              Window S2 [Range 2 Minutes]
        """,
        catalog,
    )


def test_section_2_3_1_grouped_window(catalog: Catalog) -> None:
    check(
        "Select A, Max(B) From S1 [Rows 200] Group By A",
        """
        Project S1.A AS A, MAX(S1.B) AS max(B)
          Aggregate MAX(S1.B) BY S1.A
            Window S1 [Rows 200]
        """,
        catalog,
    )


# windows


def windows(bound: Query) -> list[Window]:
    def below(node: object) -> list[Window]:
        return [node] if isinstance(node, Window) else [w for i in node.inputs for w in below(i)]  # type: ignore[arg-type]

    return below(bound.root)


@pytest.mark.parametrize(
    ("item", "kind", "size", "partition_by"),
    [
        ("S [ROWS 3]", "rows", 3, ()),
        ("S [ROWS UNBOUNDED]", "rows", None, ()),
        ("S [RANGE 2 MINUTES]", "range", 120, ()),
        ("S [RANGE 1 HOUR 30 MINUTES]", "range", 5_400, ()),
        ("S [RANGE 1000 MILLISECONDS]", "range", 1, ()),
        ("S [RANGE 5]", "range", 5, ()),
        ("S [RANGE 0 SECONDS]", "range", 0, ()),
        ("S [RANGE UNBOUNDED]", "range", None, ()),
        ("S [NOW]", "range", 0, ()),
        ("S [PARTITION BY a, S.B ROWS 2]", "rows", 2, ("S.A", "S.B")),
        ("S [PARTITION BY a ROWS 2] AS x", "rows", 2, ("x.A",)),
        ("S [PARTITION BY a ROWS UNBOUNDED]", "rows", None, ()),
        ("C [RANGE 2 DAYS]", "range", 172_800_000_000, ()),
        ("C [RANGE 1 MICROSECOND]", "range", 1, ()),
        ("S [PARTITION BY a RANGE 5 SECONDS]", "range", 5, ()),
        ("C [RANGE 1 DAY]", "range", 86_400_000_000, ()),
        ("C [RANGE 250 MILLISECONDS]", "range", 250_000, ()),
        ("C", "rows", None, ()),
    ],
)
def test_windows(
    item: str, kind: str, size: int | None, partition_by: tuple[str, ...], catalog: Catalog
) -> None:
    (window,) = windows(cql.bind(f"SELECT * FROM {item}", catalog))
    assert (window.spec.kind, window.spec.size, window.spec.partition_by) == (kind, size, partition_by)


@pytest.mark.parametrize(
    ("item", "size", "slide"),
    [
        ("S [RANGE 10 MINUTES SLIDE 1 MINUTE]", 600, 60),
        ("S [RANGE 10 SLIDE 2]", 10, 2),
        ("S [RANGE UNBOUNDED SLIDE 1 HOUR]", None, 3_600),
        ("S [ROWS 100 SLIDE 10]", 100, 10),
        ("S [ROWS UNBOUNDED SLIDE 10]", None, 10),
        ("S [PARTITION BY A ROWS 4 SLIDE 2]", 4, 2),
        ("S [PARTITION BY A ROWS UNBOUNDED SLIDE 2]", None, 2),
        ("S [ROWS 4]", 4, None),
    ],
)
def test_slides(item: str, size: int | None, slide: int | None, catalog: Catalog) -> None:
    (window,) = windows(cql.bind(f"SELECT * FROM {item}", catalog))
    assert (window.spec.size, window.spec.slide) == (size, slide)
    assert window.spec.partition_by == (("S.A",) if "PARTITION" in item else ())


def test_calls_that_read_the_same_and_differ_in_type(catalog: Catalog) -> None:
    root = cql.bind("SELECT MAX(1), MAX(CAST(1 AS BIGINT)) FROM S [NOW]", catalog).root
    assert [str(t) for t in root.schema.types] == ["int32", "int64"]


def test_bare_range_is_explained(catalog: Catalog) -> None:
    assert cql.bind("SELECT * FROM C [RANGE 5]", catalog).notes == (
        "[RANGE 5] of C counts ticks: one tick is one microsecond",
    )


# relation-to-stream


@pytest.mark.parametrize(
    ("query", "kind", "every"),
    [
        ("SELECT ISTREAM(A) FROM S [ROWS 2]", "istream", None),
        ("SELECT DSTREAM(*) FROM S [ROWS 2]", "dstream", None),
        ("ISTREAM(SELECT A FROM S [ROWS 2])", "istream", None),
        ("RSTREAM(SELECT A FROM S [ROWS 2]) EVERY 2 MINUTES", "rstream", 120),
        ("SELECT RSTREAM(A) EVERY 3 FROM S [ROWS 2]", "rstream", 3),
        ("SELECT RSTREAM(A) FROM S", "rstream", None),
        ("SELECT A FROM S", "istream", None),
        ("SELECT A FROM S [RANGE UNBOUNDED]", "istream", None),
        ("SELECT name FROM S, T WHERE S.A = T.a", "istream", None),
        ("SELECT A FROM S [ROWS 2]", None, None),
        ("SELECT S1.A FROM S1, S2 [NOW] WHERE S1.A = S2.A", None, None),
        ("SELECT COUNT(*) FROM S", None, None),
        ("SELECT A FROM S GROUP BY A", None, None),
    ],
)
def test_relation_to_stream(query: str, kind: str | None, every: int | None, catalog: Catalog) -> None:
    root = cql.bind(query, catalog).root
    found = (root.kind, root.every) if isinstance(root, ToStream) else (None, None)
    assert found == (kind, every)


# FROM and WHERE


def test_conjuncts_are_flat_and_nothing_is_pushed_down(catalog: Catalog) -> None:
    check(
        """SELECT S1.A FROM S1 [NOW], S2 [NOW]
           WHERE (S1.A = S2.A AND (S1.B > 1 AND S2.D < 2)) AND (S1.B = 1 OR D = 2)""",
        """
        Project S1.A AS A
          Join S1.A = S2.A AND S1.B > 1 AND S2.D < 2 AND ((S1.B = 1) OR (S2.D = 2))
            Window S1 [NOW]
            Window S2 [NOW]
        """,
        catalog,
    )


def test_join_on_is_where(catalog: Catalog) -> None:
    check(
        """SELECT D FROM S1 [NOW] x INNER JOIN S2 [NOW] y ON x.A = y.A AND x.B > y.D
                                     JOIN T ON T.a = y.A
           WHERE x.B > 1""",
        """
        Project y.D AS D
          Join x.A = y.A AND x.B > y.D AND T.a = y.A AND x.B > 1
            Window S1 [NOW] AS x
            Window S2 [NOW] AS y
            Table T
        """,
        catalog,
    )


def test_self_join(catalog: Catalog) -> None:
    check(
        "SELECT x.A, y.A, y.* FROM R1 [ROWS 2] x, R1 [ROWS 5] AS y WHERE x.A = y.A",
        """
        Project x.A AS A, y.A AS A_1, y.A AS A_2, y.t AS t
          Join x.A = y.A
            Window R1 [ROWS 2] AS x
            Window R1 [ROWS 5] AS y
        """,
        catalog,
    )


def test_cross_join_in_so_many_words(catalog: Catalog) -> None:
    check(
        "SELECT B, D FROM S1 [NOW] CROSS JOIN S2 [NOW]",
        """
        Project S1.B AS B, S2.D AS D
          Join CROSS
            Window S1 [NOW]
            Window S2 [NOW]
        """,
        catalog,
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 FROM S1 a, S1 b, S1 c WHERE a.A = b.A AND b.B = c.B",
        "SELECT 1 FROM S1 a, S1 b, S1 c WHERE a.A + b.A = c.A",
        "SELECT 1 FROM S1 a, S1 b WHERE a.A < b.A",
        "SELECT 1 FROM S1 a, S1 b WHERE a.A = 1 OR b.A = 2",
        "SELECT 1 FROM S1 a CROSS JOIN S1 b, S1 c WHERE c.A = b.A",
        "SELECT 1 FROM S1 a, S1 b CROSS JOIN S1 c",
    ],
)
def test_linked(query: str, catalog: Catalog) -> None:
    cql.bind(query, catalog)


def test_names_ignore_case_and_keep_the_streams_spelling(catalog: Catalog) -> None:
    check(
        "select PID, c.SIZE, c.Ts as Moment from c [now]",
        """
        Project C.pid AS pid, C.size AS size, C.ts AS Moment
          Window C [now]
        """,
        catalog,
    )


# GROUP BY


def test_keys_are_columns_expressions_aliases_and_positions(catalog: Catalog) -> None:
    check(
        """SELECT A, B % 2 AS parity, C + 1, COUNT(*), SUM(t) / COUNT(*) + A
           FROM S [ROWS 9] GROUP BY a, parity, 3""",
        """
        Project S.A AS A, (S.B % 2) AS parity, (S.C + 1) AS (C + 1), COUNT(*) AS count(*), \
(CAST(SUM(S.t) AS DOUBLE) / CAST(COUNT(*) AS DOUBLE)) + CAST(S.A AS DOUBLE) AS ((sum(t) / count(*)) + A)
          Aggregate COUNT(*), SUM(S.t) BY S.A, S.B % 2, S.C + 1
            Window S [ROWS 9]
        """,
        catalog,
    )


def test_expression_over_a_key(catalog: Catalog) -> None:
    check(
        "SELECT (A + 1) * 2, MAX(A + B) FROM S [ROWS 9] GROUP BY A + 1",
        """
        Project (S.A + 1) * 2 AS ((A + 1) * 2), MAX(S.A + S.B) AS max((A + B))
          Aggregate MAX(S.A + S.B) BY S.A + 1
            Window S [ROWS 9]
        """,
        catalog,
    )


def test_a_column_goes_before_an_alias_in_group_by(catalog: Catalog) -> None:
    bound = cql.bind("SELECT B AS x, COUNT(*) AS A FROM S [ROWS 9] GROUP BY x, B", catalog)
    assert "BY S.B\n" in show(bound.root)


def test_group_without_aggregate(catalog: Catalog) -> None:
    check(
        "SELECT A FROM S [ROWS 2] GROUP BY A",
        """
        Project S.A AS A
          Aggregate BY S.A
            Window S [ROWS 2]
        """,
        catalog,
    )


def test_same_call_is_kept_once(catalog: Catalog) -> None:
    check(
        "SELECT SUM(A), sum(s.a) + 1 FROM S [ROWS 2] WHERE B > 0",
        """
        Project SUM(S.A) AS sum(A), SUM(S.A) + 1 AS (sum(a) + 1)
          Aggregate SUM(S.A)
            Select S.B > 0
              Window S [ROWS 2]
        """,
        catalog,
    )


# entry points


def test_bind_takes_text_statement_and_tree(catalog: Catalog) -> None:
    text = "SELECT A FROM S [ROWS 2]"
    (statement,) = cql.parse(text)
    assert isinstance(statement, cql.SelectStatement)
    assert cql.bind(text, catalog) == cql.bind(statement, catalog) == cql.bind(statement.expression, catalog)
