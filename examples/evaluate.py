"""What a query means, on a few rows and without Spark: every change of its result, with its time."""

import penstock

readings = [
    (1, {"sensor": "a", "value": 10}),
    (2, {"sensor": "b", "value": 20}),
    (4, {"sensor": "a", "value": 30}),
]

for query in (
    "SELECT * FROM S [ROWS 1]",
    "SELECT sensor, AVG(value) AS mean FROM S [RANGE 2 SECONDS] GROUP BY sensor",
    "SELECT DSTREAM(*) FROM S [PARTITION BY sensor ROWS 1]",
):
    print(query)
    for ts, sign, row in penstock.evaluate(query, {"S": readings}, until=8):
        print(f"  {ts:2} {sign} {row}")
