"""Tunables of the server."""

PORT = 8765
"""The port that ``penstock serve`` listens on, by default."""
SAMPLE_S = 1.0
"""Seconds between two looks at the measurements: a batch rarely takes less, and more would cost CPU."""
FINE_S = 300.0
"""Seconds of history that are kept sample by sample; what is older is kept as means."""
COARSE_STEP_S = 10.0
"""Seconds that one mean of the older history stands for."""
COARSE_S = 7200.0
"""Seconds of history in all: an hour was asked for, and two let one compare with the hour before."""
MOST_SERIES = 4000
"""Series of history at most, each of about 20 KB when full; those not written for longest go first."""
MOST_DECISIONS = 2000
"""Decisions that are kept in all, the newest of every query."""
STALE_S = 15.0
"""Seconds after its last batch from which on a query's rates are shown as zero."""
LONG_BATCH_S = 2.0
"""Seconds of a batch from which on pages say which part took longest: nobody waits for a shorter one."""
BUSY = 0.7
"""The share of its time from which on an operator, partition or engine counts as what holds a query back."""
HOST_SHARE = 0.5
"""The share of a batch outside the engines from which on Spark counts as what holds a query back."""
HOST_WEIGHT = 0.6
"""Weight of Spark's share of a batch among what holds a query back: a busy operator comes first."""
LATE_WEIGHT = 0.2
"""Weight of late rows among what holds a query back: they are reported last."""
UNEVEN_STEPS = 1.5
"""How many times the mean the slowest partition's step takes, if one partition counts as heavy."""
KEPT_RUNS = 200
"""Runs of which the last batch is remembered."""
MOST_BODY = 1 << 20
"""Bytes of a request's body at most: query texts are a few kilobytes."""
MOST_TEXT = 100_000
"""Characters of the statements in a request at most."""
MOST_NAME = 100
"""Characters of a pipeline's name in a request at most."""
MOST_CHANGES = 20
"""Settings that one request may change."""
KEY_BYTES = 24
"""Random bytes of a token, key or nonce that the server makes: they cannot be guessed."""
SHORTEST_TOKEN = 16
"""Characters of a given token at least: fewer can be guessed at the rate that a client is allowed."""
REQUESTS_PER_S = 50.0
"""Requests per second that one client may make for long: a page makes about two."""
REQUESTS_AT_ONCE = 200
"""Requests that one client may make at once: a page with its assets needs some dozens."""
MOST_CLIENTS = 1000
"""Clients whose rate is remembered; the one that was silent for longest is forgotten first."""
KEPT_ROWS = 10_000
"""Result rows of a query that the server keeps for whoever looks next."""
FEED_BATCHES = 64
"""Batches that wait for one reader of results; a slower one loses the oldest, and gets their number."""
FOLLOWED_BATCHES = 20
"""Batches before the present one that a new reader of a pipeline's query is shown."""
FOLLOW_IDLE_S = 10.0
"""Seconds without a reader after which a pipeline's results are no longer followed."""
START_S = 20.0
"""Seconds that a server may take to start or to stop."""
START_POLL_S = 0.02
"""Seconds between two looks at whether the server has started."""
SILENT_S = 5.0
"""Seconds without progress after which an input that holds results back is called silent."""

# graphs, playground, demo

GRAPH_AWAKE_S = 5.0
"""Seconds after somebody looked at a graph for which graphs are fed at once."""
GRAPH_IDLE_S = 15.0
"""Seconds between two portions that graphs are fed while nobody looks: few large ones cost less."""
GRAPH_MOST_PORTIONS = 200
"""Batches of queries whose measurements wait for graphs at most, each of some hundreds of rows."""
GRAPH_MOST_SERIES = 60
"""Series of a graph at most: more cannot be distinguished."""
GRAPH_MOST_TEXT = 20_000
"""Characters of a graph's query at most."""
MOST_GRAPHS = 24
"""Graphs of a server at most, each an engine that runs in it."""
CHART_SPANS_S = (300.0, 900.0, 3600.0)
"""Seconds that a graph shows, at first the shortest."""
PLAY_MOST_TEXT = 20_000
"""Characters of a query that is tried."""
PLAY_MOST_ROWS = 300
"""Rows that a query is tried on: more cannot be drawn, and a join of four inputs stays within a second."""
PLAY_MOST_CHANGES = 400
"""Changes of a result that are drawn."""
DEMO_FILE_S = 0.5
"""Seconds of the clock between two files of packets."""
DEMO_SPEED = 60.0
"""How many seconds of stream time pass per second of the clock."""
DEMO_RATE = 2_000.0
"""Packets per second of the clock on the customer's link of the demo."""
ROAD_EXPRESSWAYS = 2
"""Expressways of the map: few, since one is shown at a time."""
ROAD_RATE = 150.0
"""Reports per second of traffic and expressway, enough for congestion around the middle."""
ROAD_ACCIDENTS = 20.0
"""Accidents per hour and expressway: some are on the map at any time."""
ROAD_SPREAD = 6.0
"""Standard deviation in segments of where the traffic is densest: congestion is seen at once."""
ROAD_SPEED = 10.0
"""How many seconds of traffic pass per second of the clock: a minute in six."""
ROAD_SECONDS = 24 * 3600
"""Seconds of traffic, after which the road stays as it is."""
ROAD_ALERTS = 8
"""Alerts beside the map, the newest."""
SHOWN_DECISIONS = 100
"""Decisions on their page, the newest."""
SHOWN_BESIDE = 8
"""Operators, stores or decisions beside a plan, so that they need no scrolling."""
MOST_STREAMS = 32
"""Result streams (SSE, Arrow) that are open at once, each with a queue of its own."""
HEARTBEAT_S = 5.0
"""Seconds between two comments in an idle event stream, by which closed connections are found."""
WATCHED_ROWS = 1000
"""Rows that one event of a result stream has at most, so that a browser can take it in."""
GONE_S = 1.0
"""Seconds after which a client that has closed an idle stream of results is noticed."""
