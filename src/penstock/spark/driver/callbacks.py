"""The connections by which threads of the JVM call Python.

py4j opens one for each thread of the JVM that calls a listener or a ``foreachBatch`` function, and never
closes it. Every streaming query has such a thread, and would leave a socket in both processes and a thread in
Python. So the connection of a query's thread is closed when the query has ended; a thread that still needs it
gets a new one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from penstock.spark.driver.private_fields import read_field


def calling_port() -> int | None:
    """The port of the JVM's thread that is calling this one; None if none is, or py4j does not tell."""
    try:
        gateway: Any = SparkContext._gateway
        return int(gateway._gateway_client.get_thread_connection().socket.getpeername()[1])
    except (AttributeError, OSError):
        return None


def close_connection(port: int) -> None:
    """Close the connection by which a thread of the JVM that has ended called Python."""
    gateway: Any = SparkContext._gateway
    with suppress(AttributeError, Py4JError):
        client = gateway.java_gateway_server.getCallbackClient()
        lock, connections = read_field(client, "lock"), read_field(client, "connections")
        lock.lock()
        try:
            for connection in list(connections.toArray()):
                socket = connection.getSocket()
                if socket is None or socket.getLocalPort() == port:
                    connections.remove(connection)
                    connection.shutdown()
        finally:
            lock.unlock()
