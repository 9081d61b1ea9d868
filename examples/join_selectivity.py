"""A system that is asked about itself: the selectivity of a running join, averaged over ten seconds."""

import tempfile

import penstock
from penstock.workloads.files import write_slices
from penstock.workloads.packets import PacketWorkload

packets = tempfile.mkdtemp()
write_slices(packets, PacketWorkload(rate=500).slices(8))  # after five seconds the routing changes

ps = penstock.connect()
for link in ("C", "B"):
    ps.sql(
        f"CREATE STREAM {link} (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts "
        f"FROM PARQUET '{packets}/{link}' OPTIONS (maxFilesPerTrigger '1')"
    )
ps.sql("""
    SET penstock.sysstream_every = '0 seconds';  -- after every batch

    CREATE SINK selectivity TO CONSOLE;
    INSERT INTO selectivity
    SELECT ISTREAM(query, ROUND(AVG(value), 4) AS selectivity)
    FROM   SysStream [RANGE 10 SECONDS]
    WHERE  property = 'selectivity' AND entity LIKE 'binary-join.%'
    GROUP BY query;

    CREATE SINK crossed TO NOOP TRIGGER AVAILABLE NOW;
    INSERT INTO crossed
    SELECT ISTREAM ALL(C.pid, C.size)
    FROM   C [RANGE 1 SECOND], B [RANGE 1 SECOND]
    WHERE  C.pid = B.pid
""")
ps.query("crossed").awaitTermination()
ps.query("selectivity").processAllAvailable()
ps.query("selectivity").stop()
