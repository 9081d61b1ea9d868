"""The server: a page and an HTTP API that show running queries, and change them.

``model.Model`` is the one view of everything that a page or the API shows, made of typed measurements; it
knows nothing of Spark. A ``backend.Backend`` stands for what runs: a session on Spark (``session_backend``),
or engines in this process (tests, the playground).
"""
