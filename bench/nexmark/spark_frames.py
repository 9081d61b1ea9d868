"""The queries of NEXMark in Spark Structured Streaming, where it can express them.

Each takes the streams by name, all with a watermark of no delay, and returns the columns of the result.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Streams = dict[str, DataFrame]


def q0(s: Streams) -> DataFrame:
    return s["bid"].select("auction", "bidder", "price", "dateTime", "extra")


def q1(s: Streams) -> DataFrame:
    return s["bid"].selectExpr("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")


def q2(s: Streams) -> DataFrame:
    return s["bid"].where("auction % 123 = 0").select("auction", "price")


def q3(s: Streams) -> DataFrame:
    sold = s["auction"].where("category = 10").select("id", "seller")
    local = (
        s["person"]
        .where("state IN ('OR', 'ID', 'CA')")
        .select(F.col("id").alias("pid"), "name", "city", "state")
    )
    return sold.join(local, F.expr("seller = pid")).select("name", "city", "state", "id")


def q5(s: Streams) -> DataFrame:
    counts = (
        s["bid"]
        .groupBy(F.window("dateTime", "10 seconds", "2 seconds"), "auction")
        .agg(F.count("*").alias("num"))
    )
    listed = counts.groupBy("window").agg(
        F.max("num").alias("most"), F.collect_list(F.struct("auction", "num")).alias("every")
    )
    hot = F.explode(F.expr("filter(every, x -> x.num = most)")).alias("hot")
    return listed.select(hot, "window.end").select("hot.auction", "hot.num", "end")


def q7(s: Streams) -> DataFrame:
    window = F.window("dateTime", "10 seconds").alias("window")
    # One column of event time per side: the bid's own time goes as a number.
    bids = s["bid"].select(
        window, "auction", "price", "bidder", F.unix_micros("dateTime").alias("us"), "extra"
    )
    most = s["bid"].groupBy(window.alias("w")).agg(F.max("price").alias("most"))
    joined = bids.join(most, F.expr("window = w AND price = most"))
    return joined.select("auction", "price", "bidder", F.timestamp_micros("us"), "extra", "window.end")


def q8(s: Streams) -> DataFrame:
    window = F.window("dateTime", "10 seconds")
    persons = s["person"].groupBy(window.alias("pw"), "id", "name").agg(F.count("*").alias("p"))
    sellers = s["auction"].groupBy(window.alias("aw"), "seller").agg(F.count("*").alias("a"))
    return persons.join(sellers, F.expr("pw = aw AND id = seller")).select("id", "name", "pw.start")


def q10(s: Streams) -> DataFrame:
    when = [
        F.date_format("dateTime", "yyyy-MM-dd").alias("dt"),
        F.date_format("dateTime", "HH:mm").alias("hm"),
    ]
    return s["bid"].select("auction", "bidder", "price", "dateTime", "extra", *when)


def q11(s: Streams) -> DataFrame:
    sessions = s["bid"].groupBy(F.session_window("dateTime", "10 seconds").alias("w"), "bidder")
    return sessions.agg(F.count("*").alias("n")).select("bidder", "n", "w.start", "w.end")


def q13(s: Streams) -> DataFrame:
    side = s["side_input"].withColumnRenamed("key", "k")
    return (
        s["bid"]
        .join(side, F.expr("auction % 10000 = k"))
        .select("auction", "bidder", "price", "dateTime", "value")
    )


def q14(s: Streams) -> DataFrame:
    time = """CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END"""
    some = s["bid"].where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
    counted = "regexp_count(extra, 'c')"
    return some.selectExpr("auction", "bidder", "0.908 * price AS price", time, "dateTime", "extra", counted)


def _ranks(price: str = "price") -> list[Column]:
    low, high = F.col(price) < 10_000, F.col(price) >= 1_000_000
    ranks = {"rank1": low, "rank2": ~low & ~high, "rank3": high}
    return [F.count("*").alias("total"), *(F.count_if(condition).alias(n) for n, condition in ranks.items())]


def q17(s: Streams) -> DataFrame:
    days = s["bid"].groupBy("auction", F.date_format("dateTime", "yyyy-MM-dd").alias("day"))
    prices = [f("price").alias(f.__name__) for f in (F.min, F.max, F.avg, F.sum)]
    return days.agg(*_ranks(), *prices)


def q18(s: Streams) -> DataFrame:
    row = F.struct("price", "channel", "url", "dateTime", "extra")
    last = s["bid"].groupBy("auction", "bidder").agg(F.max_by(row, "dateTime").alias("last"))
    return last.select("auction", "bidder", "last.*")


def q20(s: Streams) -> DataFrame:
    of = [F.col(c).alias(f"of_{c}") for c in ("dateTime", "extra")]
    plain = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
    auctions = s["auction"].where("category = 10").select("id", *plain, *of)
    return s["bid"].join(auctions, F.expr("auction = id")).select(
        *("auction", "bidder", "price", "channel", "url", "dateTime", "extra", "itemName", "description"),
        *("initialBid", "reserve", "of_dateTime", "expires", "seller", "category", "of_extra"),
    )  # fmt: skip


def q21(s: Streams) -> DataFrame:
    channels = ("apple", "google", "facebook", "baidu")
    known = " ".join(f"WHEN '{channel}' THEN '{n}'" for n, channel in enumerate(channels))
    named = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
    one = f"CASE lower(channel) {known} ELSE {named} END AS channel_id"
    return s["bid"].selectExpr("auction", "bidder", "price", "channel", one).where("channel_id <> ''")


def q22(s: Streams) -> DataFrame:
    parts = [f"split_part(url, '/', {n}) AS dir{n - 3}" for n in (4, 5, 6)]
    return s["bid"].selectExpr("auction", "bidder", "price", "channel", *parts)


FRAMES: dict[str, Callable[[Streams], DataFrame]] = {
    f.__name__: f for f in (q0, q1, q2, q3, q5, q7, q8, q10, q11, q13, q14, q17, q18, q20, q21, q22)
}
UPDATED = {"q17", "q18"}
"""Spark returns rows that replace those with the same key, once per batch; the others are appended."""
WITHOUT = {
    "q4": "no aggregate of an aggregate without windows",
    "q6": "no ranks over streams",
    "q9": "no ranks over streams, and no aggregate without window over a join",
    "q12": "which window a row is in depends on the run",
    "q15": "no COUNT(DISTINCT ...) over streams",
    "q16": "no COUNT(DISTINCT ...) over streams",
    "q19": "no ranks over streams",
}
"""Why Spark has none of the others."""
