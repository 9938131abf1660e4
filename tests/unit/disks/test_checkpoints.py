"""Checkpoint files: what Kafka writes is read, anything else is one line that names the file and the place."""

import os
from contextlib import suppress

import pytest

from generators.disks.checkpoints import read_leader_epochs, read_offsets, read_properties
from generators.disks.files import Unreadable
from tests.unit.disks.disk_files import recorded

GOOD = "0\n2\nt 0 5\nu.x-y_z 12 9223372036854775807\n"


def test_offsets_by_partition(tmp_path):
    (tmp_path / "file").write_text(GOOD)
    assert read_offsets(tmp_path / "file").by_place == {("t", 0): 5, ("u.x-y_z", 12): (1 << 63) - 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1\n0\n", "version '1'"),
        ("\n0\n", "version ''"),
        ("0\n3\nt 0 5\n", "1 lines where its second line says 3"),
        ("0\n1\nt 0 5", "cut or damaged"),
        ("0\n1\nt 0\n", "line 3: 2 fields, not 3"),
        ("0\n1\nt 0 -1\n", "line 3: '-1' is no number"),
        ("0\n1\nt 0 9223372036854775808\n", "is no number"),
        ("0\n1\nt 2147483648 0\n", "is no number"),
        ("0\n1\n../etc 0 1\n", "is no name of a topic"),
        ("0\n2\nt 0 1\nt 0 2\n", "line 4: t-0 a second time"),
        ("0\n99999999999999999999\n", "is no number"),
        ("0\n1\nt 0 1é\n", "byte 9 is none of such a file"),
    ],
)
def test_a_damaged_checkpoint_is_one_line(tmp_path, text, why):
    (tmp_path / "file").write_text(text)
    with pytest.raises(Unreadable, match=r"^[^\n]*$") as raised:
        read_offsets(tmp_path / "file")
    assert why in str(raised.value)
    assert str(tmp_path / "file") in str(raised.value)


@pytest.mark.parametrize("at", range(len(GOOD)))
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_a_checkpoint_is_told_or_is_another_valid_checkpoint(tmp_path, at, bit):
    content = bytearray(GOOD.encode())
    content[at] ^= 1 << bit
    (tmp_path / "file").write_bytes(content)
    with suppress(Unreadable):
        assert len(read_offsets(tmp_path / "file").by_place) == 2


def test_leader_epochs_rise(tmp_path):
    (tmp_path / "file").write_text("0\n2\n0 0\n4 120\n")
    assert read_leader_epochs(tmp_path / "file") == [(0, 0), (4, 120)]
    for wrong in ("4 120\n0 0\n", "0 5\n1 4\n", "0 0\n0 1\n"):
        (tmp_path / "file").write_text("0\n2\n" + wrong)
        with pytest.raises(Unreadable, match="line 4"):
            read_leader_epochs(tmp_path / "file")


def test_a_file_that_was_created_and_never_written_says_nothing(tmp_path):
    (tmp_path / "file").touch()
    assert read_leader_epochs(tmp_path / "file") == []


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "secret").write_text(GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, why in (("link", "a symbolic link"), ("pipe", "not a regular"), ("folder", "directory|not a regular"),
                      ("none", "No such file")):  # fmt: skip
        with pytest.raises(Unreadable, match=why):
            read_offsets(tmp_path / name)


def test_a_huge_checkpoint_is_refused_unread(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unreadable, match="more than such a file can have"):
        read_offsets(tmp_path / "file")


def test_properties_of_a_real_broker(tmp_path):
    broker = recorded(tmp_path) / "data" / "broker-1"
    assert read_properties(broker / "meta.properties")["node.id"] == "1"
    assert len(read_properties(broker / "orders-0" / "partition.metadata")["topic_id"]) == 22
