"""Any streaming DataFrame is a stream, any DataFrame a table, and the result is a streaming DataFrame too."""

import penstock

ps = penstock.connect()
spark = ps.spark

clicks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
ps.create_stream("Clicks", clicks.selectExpr("timestamp AS at", "value % 7 AS page"), timestamp="at")
ps.create_table("Pages", spark.createDataFrame([(0, "home"), (1, "shop")], "page BIGINT, title STRING"))

busiest = ps.sql("""
    SELECT Pages.title, COUNT(*) AS clicks
    FROM   Clicks [RANGE 1 MINUTE], Pages
    WHERE  Clicks.page = Pages.page
    GROUP BY Pages.title
""")
query = busiest.where("op = '+'").writeStream.format("memory").queryName("busiest").start()
while len(query.recentProgress) < 2:
    query.awaitTermination(0.5)
query.stop()
spark.table("busiest").orderBy("ts").show(10)
