"""The traffic of a customer that crossed the backbone and left the network, in the last ten minutes."""

import tempfile

import penstock
from penstock.workloads.files import write_slices
from penstock.workloads.packets import PacketWorkload

packets = tempfile.mkdtemp()
write_slices(packets, PacketWorkload(rate=500).slices(10))  # three links, ten seconds of packets

ps = penstock.connect()
ps.sql("SET penstock.at_end = 'complete'")  # no packet comes after these
for link in ("C", "B", "O"):
    ps.sql(
        f"CREATE STREAM {link} (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts "
        f"FROM PARQUET '{packets}/{link}'"
    )
traffic = ps.sql("""
    SELECT SUM(C.size) AS total
    FROM   C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]
    WHERE  C.pid = B.pid AND B.pid = O.pid
""")
shown = traffic.writeStream.format("console").option("truncate", False)
shown.trigger(availableNow=True).start().awaitTermination()
