-- What the queries of NEXMark must return over a finite input, in DuckDB's SQL over the whole of it.
-- Windows count if they ended by the last instant, :until, in microseconds; a window is named by its end.

-- q0
SELECT auction, bidder, price, dateTime, extra FROM bid

-- q1
SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid

-- q2
SELECT auction, price FROM bid WHERE mod(auction, 123) = 0

-- q3
SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id WHERE A.category =
  10 AND P.state IN ('OR', 'ID', 'CA')

-- q4
SELECT category, avg(final) FROM (SELECT A.category, max(B.price) AS final FROM auction A, bid B WHERE
  A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category) GROUP BY
  category

-- q5
SELECT auction, num, e FROM (SELECT auction, e, count(*) AS num FROM (SELECT auction, unnest(range(
  (epoch_us(dateTime) // 2000000 + 1) * 2000000, (epoch_us(dateTime) // 2000000 + 6) * 2000000, 2000000
  )) AS e FROM bid) GROUP BY auction, e) WHERE e <= :until QUALIFY rank() OVER (PARTITION BY e ORDER BY
  num DESC) = 1

-- q6
SELECT seller, avg(price) FROM (SELECT seller, price FROM (SELECT A.id, A.seller, B.price, B.dateTime
  FROM auction A, bid B WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires QUALIFY
  row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) = 1) QUALIFY row_number() OVER
  (PARTITION BY seller ORDER BY dateTime DESC, id DESC) <= 10) GROUP BY seller

-- q7
SELECT auction, price, bidder, dateTime, extra, (epoch_us(dateTime) // 10000000 + 1) * 10000000 AS e
  FROM bid WHERE e <= :until QUALIFY rank() OVER (PARTITION BY e ORDER BY price DESC) = 1

-- q8
SELECT DISTINCT P.id, P.name, P.e - 10000000 FROM (SELECT *, (epoch_us(dateTime) // 10000000 + 1) *
  10000000 AS e FROM person) P, (SELECT *, (epoch_us(dateTime) // 10000000 + 1) * 10000000 AS e FROM
  auction) A WHERE P.id = A.seller AND P.e = A.e AND P.e <= :until

-- q9
SELECT A.*, B.auction, B.bidder, B.price, B.dateTime, B.extra FROM auction A, bid B WHERE A.id =
  B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires QUALIFY row_number() OVER (PARTITION BY A.id
  ORDER BY B.price DESC, B.dateTime) = 1

-- q10
SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'), strftime(dateTime,
  '%H:%M') FROM bid

-- q11
SELECT bidder, count(*), min(us), max(us) + 10000000 FROM ( SELECT bidder, us, sum(begins) OVER
  (PARTITION BY bidder ORDER BY us) AS session FROM ( SELECT bidder, epoch_us(dateTime) AS us,
  coalesce(us - lag(us) OVER (PARTITION BY bidder ORDER BY us) >= 10000000, TRUE)::INT AS begins FROM
  bid)) GROUP BY bidder, session HAVING max(us) + 10000000 <= :until

-- q12
SELECT bidder, count(*) FROM bid GROUP BY bidder

-- q13
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value FROM bid B JOIN side_input S ON mod(B.auction,
  10000) = S.key

-- q14
SELECT auction, bidder, 0.908 * price, CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN
  hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END, dateTime, extra,
  length(extra) - length(replace(extra, 'c', '')) FROM bid WHERE 0.908 * price > 1000000 AND 0.908 *
  price < 50000000

-- q15
SELECT strftime(dateTime, '%Y-%m-%d') AS day, count(*) FILTER (WHERE TRUE), count(*) FILTER (WHERE price
  < 10000), count(*) FILTER (WHERE price BETWEEN 10000 AND 999999), count(*) FILTER (WHERE price >=
  1000000), count(DISTINCT bidder) FILTER (WHERE TRUE), count(DISTINCT bidder) FILTER (WHERE price <
  10000), count(DISTINCT bidder) FILTER (WHERE price BETWEEN 10000 AND 999999), count(DISTINCT bidder)
  FILTER (WHERE price >= 1000000), count(DISTINCT auction) FILTER (WHERE TRUE), count(DISTINCT auction)
  FILTER (WHERE price < 10000), count(DISTINCT auction) FILTER (WHERE price BETWEEN 10000 AND 999999),
  count(DISTINCT auction) FILTER (WHERE price >= 1000000) FROM bid GROUP BY day

-- q16
SELECT channel, strftime(dateTime, '%Y-%m-%d') AS day, max(strftime(dateTime, '%H:%M')), count(*) FILTER
  (WHERE TRUE), count(*) FILTER (WHERE price < 10000), count(*) FILTER (WHERE price BETWEEN 10000 AND
  999999), count(*) FILTER (WHERE price >= 1000000), count(DISTINCT bidder) FILTER (WHERE TRUE),
  count(DISTINCT bidder) FILTER (WHERE price < 10000), count(DISTINCT bidder) FILTER (WHERE price
  BETWEEN 10000 AND 999999), count(DISTINCT bidder) FILTER (WHERE price >= 1000000), count(DISTINCT
  auction) FILTER (WHERE TRUE), count(DISTINCT auction) FILTER (WHERE price < 10000), count(DISTINCT
  auction) FILTER (WHERE price BETWEEN 10000 AND 999999), count(DISTINCT auction) FILTER (WHERE price >=
  1000000) FROM bid GROUP BY channel, day

-- q17
SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, count(*) FILTER (WHERE TRUE), count(*) FILTER
  (WHERE price < 10000), count(*) FILTER (WHERE price BETWEEN 10000 AND 999999), count(*) FILTER (WHERE
  price >= 1000000), min(price), max(price), avg(price), sum(price) FROM bid GROUP BY auction, day

-- q18
SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1

-- q19
SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, bidder, channel, url, dateTime)
  AS rank_number FROM bid QUALIFY rank_number <= 10

-- q20
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra, A.itemName, A.description,
  A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra FROM bid B JOIN auction
  A ON B.auction = A.id WHERE A.category = 10

-- q21
SELECT auction, bidder, price, channel, id FROM (SELECT *, CASE lower(channel) WHEN 'apple' THEN '0'
  WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE regexp_extract(url,
  '&channel_id=([^&]*)', 1) END AS id FROM bid) WHERE id <> ''

-- q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
  split_part(url, '/', 6) FROM bid
