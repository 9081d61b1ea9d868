"""Bids joined with their auctions in a tenth of the memory: as many as fit, or a sample with error bars."""

import tempfile

import penstock
from penstock.workloads.auctions import DDL, AuctionWorkload
from penstock.workloads.files import write_slices

MINUTES = 6
workload = AuctionWorkload(rate=50, slice_seconds=60)  # open for a minute each; five bids, most near the end
streams = tempfile.mkdtemp()
write_slices(streams, workload.slices(MINUTES))

ps = penstock.connect(partitions=2)  # a budget is divided by partitions
for name, columns in DDL.items():
    ps.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts FROM PARQUET '{streams}/{name}'")


def run(query, note):
    """Hand each batch of a query's rows to ``note``."""
    writer = ps.sql(query).writeStream.foreachBatch(lambda batch, _: note(batch))
    writer.trigger(availableNow=True).start().awaitTermination()


def results(budget):
    """How many bids find their auction."""
    counts = []
    run(f"""SELECT ISTREAM ALL(seller, price) FROM Auctions [RANGE 1 MINUTE] AS A, Bids [NOW] AS B
            WHERE A.auction = B.auction {budget}""", lambda batch: counts.append(batch.count()))  # fmt: skip
    return sum(counts)


def average(budget):
    """The average price of the last 20 seconds' bids, at the end."""
    last = []
    run(f"""SELECT AVG(price) AS price FROM Auctions [RANGE 1 MINUTE] AS A, Bids [RANGE 20 SECONDS] AS B
            WHERE A.auction = B.auction {budget}""",
        lambda batch: last.extend(batch.where("op = '+'").orderBy("ts").tail(1)))  # fmt: skip
    return last[-1]


every = results("")
tenth = f"WITHIN MEMORY {workload.open_at_once // 10} ROWS"
for goal in ("MAXIMIZE RESULTS USING RECENT", "MAXIMIZE RESULTS"):
    print(f"{tenth} {goal}: {results(f'{tenth} {goal}') / every:.1%} of all results")
print(f"exact: {average('').price:.1f}")
sampled = average(f"{tenth} SAMPLE CLUSTER")
print(
    f"{tenth} SAMPLE CLUSTER: {sampled.price:.1f}, from {sampled.price_low:.1f} to {sampled.price_high:.1f}"
)
