-- The queries of NEXMark in Flink SQL, over tables person, auction and bid whose time attribute is dateTime.

-- q0
SELECT auction, bidder, price, `dateTime`, extra FROM bid

-- q1
SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid

-- q2
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0

-- q3
SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')

-- q4
SELECT category, AVG(final) FROM (
  SELECT a.category, MAX(b.price) AS final FROM auction a JOIN bid b
  ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category)
GROUP BY category

-- q5
WITH counts AS (
  SELECT auction, COUNT(*) AS num, window_start, window_end
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end)
SELECT c.auction, c.num, c.window_end FROM counts c JOIN (
  SELECT MAX(num) AS most, window_start, window_end FROM counts GROUP BY window_start, window_end) m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.most

-- q6
-- Not possible in Flink: an OVER aggregate needs an append-only input, and winning bids are updated.

-- q7
SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra FROM bid b JOIN (
  SELECT MAX(price) AS most, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end) m
ON b.price = m.most AND b.`dateTime` BETWEEN m.window_end - INTERVAL '10' SECOND AND m.window_end

-- q8
SELECT p.id, p.name, p.window_start FROM (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end) p
JOIN (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end) a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end

-- q9
SELECT * FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS bid_dateTime, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime`) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires)
WHERE place = 1

-- q10
SELECT auction, bidder, price, `dateTime`, extra,
  DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS dt, DATE_FORMAT(`dateTime`, 'HH:mm') AS hm
FROM bid

-- q11
SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end

-- q12
SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(TUMBLE(TABLE arriving_bid, DESCRIPTOR(p_time), INTERVAL '10' SECOND))  -- p_time AS PROCTIME()
GROUP BY bidder, window_start, window_end

-- q13
SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value`
FROM bid b JOIN side_input FOR SYSTEM_TIME AS OF b.p_time AS s  -- side_input: of a connector that looks keys up
ON MOD(b.auction, 10000) = s.`key`

-- q14
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
       WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
  `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000

-- q15
SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  COUNT(DISTINCT bidder) AS total_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS total_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')

-- q16
SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`,
  COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  COUNT(DISTINCT bidder) AS total_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS total_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')

-- q17
SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
FROM bid GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')

-- q18
SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid)
WHERE place = 1

-- q19
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
WHERE rank_number <= 10

-- q20
SELECT b.*, a.itemName, a.description, a.initialBid, a.reserve, a.`dateTime`, a.expires, a.seller, a.category, a.extra
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10

-- q21
SELECT auction, bidder, price, channel,
  CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
       ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bid
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
   OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')

-- q22
SELECT auction, bidder, price, channel,
  SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid
