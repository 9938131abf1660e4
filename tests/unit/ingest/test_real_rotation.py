"""Logs as log4j 1, log4j 2 and logrotate themselves rotate them, read while they do: each line once, in order."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from tests.unit.ingest.reading import reader_of, restarted

pytestmark = pytest.mark.nightly
LOG4J1, LOG4J2 = "org.apache.log4j", "org.apache.logging.log4j"
WRITER = """
import java.util.*;
import %s.*;
public class Writer {
  public static void main(String[] args) throws Exception {
    Logger log = LogManager.getLogger("kafka.cluster.Partition");
    Scanner in = new Scanner(System.in);
    for (int k = 0; in.hasNextInt();) {%s
      for (int n = in.nextInt(); n > 0; n--) log.info("line " + k++ + " with some words that make the file grow");
      System.out.println("written");
    }
  }
}
"""
SIZE1 = """
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={live}
log4j.appender.file.MaxFileSize=2KB
log4j.appender.file.MaxBackupIndex=50
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
DAILY1 = """
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.DailyRollingFileAppender
log4j.appender.file.File={live}
log4j.appender.file.DatePattern='.'yyyy-MM-dd-HH-mm-ss
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
DUE = """
      java.lang.reflect.Field due = DailyRollingFileAppender.class.getDeclaredField("nextCheck");
      due.setAccessible(true);
      due.set(Logger.getRootLogger().getAppender("file"), 0L);
"""
"""It looks at the time once a minute."""
SIZE2 = """
appender.r.type=RollingFile
appender.r.name=R
appender.r.fileName={live}
appender.r.filePattern={live}.%i{suffix}
appender.r.layout.type=PatternLayout
appender.r.layout.pattern=[%d] %p %m (%c)%n
appender.r.policies.type=Policies
appender.r.policies.size.type=SizeBasedTriggeringPolicy
appender.r.policies.size.size=2KB
appender.r.strategy.type=DefaultRolloverStrategy
appender.r.strategy.max=50
appender.r.strategy.fileIndex={index}
rootLogger.level=info
rootLogger.appenderRef.r.ref=R
"""


def jars(package: str, folder: Path) -> list[Path]:
    if package == LOG4J2:
        return [*(Path(pyspark.__file__).parent / "jars").glob("log4j-[ac]*.jar")]
    if not shutil.which("mvn"):
        pytest.skip("no Maven here to fetch log4j 1")
    command = ["mvn", "-B", "-q", "dependency:copy", "-Dartifact=log4j:log4j:1.2.17", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, cwd=folder)
    return [*folder.glob("log4j-*.jar")]


class Reading:
    """The numbers of the lines that a reader of the folder has told, which may be another one at each step.

    `truncates`: what is written between a copy and the truncation is missing, and nothing shows whether there was some.
    """

    def __init__(self, folder: Path, restart: bool, truncates: bool = False) -> None:
        self.reader, self.restart, self.numbers = reader_of(folder), restart, list[int]()
        self.truncates = truncates

    def rest(self) -> None:
        self.reader = restarted(self.reader) if self.restart else self.reader
        while lines := self.reader.read(1 << 16):
            self.numbers.extend(int(number) for number in re.findall(rb"line (\d+) ", lines))
        why = self.reader.missing()
        assert why is None or (self.truncates and "was truncated" in why)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("each", [5, 60])
@pytest.mark.parametrize(
    ("package", "index", "suffix"),
    [(LOG4J1, "", ""), (LOG4J1, "date", ""), *((LOG4J2, i, s) for i in ("min", "max") for s in ("", ".gz"))],
)
def test_a_log_that_log4j_rotates(tmp_path, package, index, suffix, each, restart):
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "Writer.java").write_text(WRITER % (package, DUE if index == "date" else ""))
    properties = DAILY1 if index == "date" else SIZE1 if package == LOG4J1 else SIZE2
    (tmp_path / "l.properties").write_text(properties.format(live=logs / "rep.log", index=index, suffix=suffix))
    classes = ":".join(map(str, jars(package, tmp_path)))
    options = [
        f"-Dlog4j.configuration=file:{tmp_path}/l.properties",
        f"-Dlog4j2.configurationFile={tmp_path}/l.properties",
    ]
    command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", classes, *options, str(tmp_path / "Writer.java")]
    reading = Reading(logs, restart)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(6):
            writer.stdin.write(f"{each}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "written\n"
            time.sleep(0.2 if suffix else 1.1 if index == "date" else 0)  # it is compressed beside
            reading.rest()
        writer.stdin.close()
    assert reading.numbers == list(range(6 * each))
    assert len(list(logs.iterdir())) > 1


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        "create", "copytruncate", "compress\ncreate", "compress\ndelaycompress\ncopytruncate", "copy",
        "dateext\ndateformat -%Y%m%d-%s\ncreate",
    ],
)  # fmt: skip
def test_a_log_that_logrotate_rotates(tmp_path, options, restart):
    logrotate = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if not logrotate:
        pytest.skip("no logrotate here")
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    live, conf, written = logs / "rep.log", tmp_path / "conf", 0
    conf.write_text(f'"{live}" {{\nsize 1\nrotate 5\nmissingok\n{options}\n}}\n')
    conf.chmod(0o644)
    reading = Reading(logs, restart, "copytruncate" in options)

    def write(count: int) -> None:
        nonlocal written
        with live.open("ab") as file:
            for k in range(written, written + count):
                file.write(
                    b"[2026-10-25 01:%02d:%02d,000] INFO line %d (kafka.cluster.Partition)\n" % (k // 60, k % 60, k)
                )
        written += count

    for step in range(6):
        write(20)
        reading.rest()
        write(7)
        for _ in range(1 + step % 2):
            time.sleep(1.1 if "dateext" in options else 0)
            subprocess.run([logrotate, "-f", "-s", str(tmp_path / "state"), str(conf)], check=True)
            write(5)
        reading.rest()
    assert reading.numbers == list(range(written))
