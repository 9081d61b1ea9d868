import pyarrow.parquet as pq
from waiting import until

from penstock.workloads.feed import Feed
from penstock.workloads.packets import PacketWorkload


def test_writes_the_slices_in_order_until_it_is_stopped(tmp_path):
    workload = PacketWorkload(rate=100)
    feed = Feed(workload, tmp_path, period=0.02)
    feed.write()
    feed.start()
    until(lambda: feed.written >= 4)
    feed.stop()
    written = feed.written
    for link in "CBO":
        files = sorted((tmp_path / link).iterdir())
        assert len(files) == written
        assert pq.read_table(files[2]) == workload.slice(2)[link]


def test_may_be_stopped_before_it_is_started(tmp_path):
    Feed(PacketWorkload(), tmp_path, period=1).stop()
