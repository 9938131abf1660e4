"""The bucket of an event, by a fixed hash that is the same on every machine and in every run."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def assign(events: pa.Table, buckets: int) -> np.ndarray:
    """Bucket of each event (int32, one per row); -1 for broker-wide rows, which every bucket gets.

    The partitions of a topic go to successive buckets, so that each topic spreads evenly.
    """
    clusters, cluster_of = _encoded(events["cluster"])
    topics, topic_of = _encoded(events["topic"])
    # Unsigned 32-bit numbers: the division of every row is the cost here.
    start = np.array([[_number(cluster, topic) % buckets for topic in topics] for cluster in clusters], np.uint32)
    partition = pc.fill_null(events["partition"], -1).cast(pa.int32()).to_numpy()
    first = start[0].take(topic_of) if len(clusters) == 1 else start[cluster_of, topic_of]
    assigned: np.ndarray = ((first + partition.view(np.uint32)) % np.uint32(buckets)).view(np.int32)
    assigned[partition < 0] = -1
    return assigned


def owner(source_id: str, buckets: int) -> int:
    """The one bucket that emits rows about a source's broker-wide series."""
    return _number(source_id) % buckets


@lru_cache(maxsize=1 << 16)
def _number(*names: str) -> int:
    """A 62-bit hash of these names."""
    digest = blake2b(b"\0".join(name.encode() for name in names), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """Distinct names, and each row's index among them; null is a name without letters, whatever the others are."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    names = [name or "" for name in array.dictionary.to_pylist()]
    if array.indices.null_count or not names:
        return [*names, ""], pc.fill_null(array.indices, len(names)).to_numpy(zero_copy_only=False)
    return names, array.indices.to_numpy(zero_copy_only=False)
